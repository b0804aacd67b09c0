// Modules over months of programs that come and go, against a kernel that is none.
#include "daemon/target/modules.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/service/frame_names.h"
#include "tests/observe.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_kernel.h"
#include "tests/unit/elf_builder.h"
#include "tests/unit/stripped_library.h"

namespace profd {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr uint64_t kCodeOffset = test::kTextOffset + 0x10;

// A program with one function, of which it runs the code.
test::Bytes Program(const std::string& function) {
  test::FrameBuilder frames;
  const uint32_t common = frames.AddCommon();
  frames.AddFunction(common, test::kText, 0x100, {});
  return test::BuildElf(frames.bytes(),
                        {.symbols = {{.name = function, .address = test::kText, .size = 0x100}}});
}

// A file that is mapped by a process, this one.
class Mapped {
 public:
  Mapped(const std::string& path, const test::Bytes& bytes) : size_(bytes.size()) {
    const UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0755));
    if (write(fd.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
      std::abort();
    }
    address_ = mmap(nullptr, size_, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd.get(), 0);
    if (address_ == MAP_FAILED) std::abort();
    struct stat st;
    fstat(fd.get(), &st);
    // As bpf/modules.bpf.h makes it.
    static uint32_t version = 0;
    key_ = {.ino = st.st_ino, .dev = static_cast<uint32_t>(st.st_dev), .generation = ++version};
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  ~Mapped() { munmap(address_, size_); }

  const profd_module_key& key() const { return key_; }
  profd_module_record Record() const {
    const auto start = reinterpret_cast<uint64_t>(address_);
    return {.type = PROFD_RECORD_MODULE,
            .pid = getpid(),
            .key = key_,
            .start = start,
            .end = start + (size_ + 4095) / 4096 * 4096,
            .file_offset = 0};
  }

 private:
  size_t size_;
  void* address_;
  profd_module_key key_{};
};

size_t OpenFiles() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

class ModulesTest : public testing::Test {
 protected:
  void Make(ModuleLimits limits) {
    kernel_.modules.SetLimit(limits.modules);
    limits_ = limits;
    modules_.emplace(&kernel_, &cpu_use_, limits, SoughtInModules{});
  }

  // A walk comes to the file; the daemon reads what is announced.
  std::optional<ModuleId> Walk(const Mapped& file) {
    bool fresh = false;
    const std::optional<ModuleId> id = kernel_.modules.Walk(file.key(), &fresh);
    if (fresh) {
      modules_->OnAnnounced(file.Record());
      modules_->WaitIdle(INT64_MAX);
    }
    return id;
  }

  // What the source does at a drain.
  void MakeRoom() {
    kernel_.AdvanceModuleClock();
    if (!modules_->IsCrowded()) return;
    const uint32_t begin = kernel_.AdvanceModuleClock();
    ASSERT_TRUE(kernel_.AnnounceMappings().ok());
    modules_->MakeRoom(begin);
    modules_->WaitIdle(INT64_MAX);
  }

  std::string NameOf(ModuleId id) {
    const FrameAddress address = {.frame = PROFD_FRAME(static_cast<uint32_t>(id), kCodeOffset),
                                  .exact = true};
    return FrameNames(&*modules_, {.symbols = "/nonexistent"}).Name({&address, 1}).at(0).function;
  }

  std::string PathOf(int number) const { return absl::StrCat(directory_.path(), "/p", number); }

  const test::TemporaryDirectory directory_;
  FakeClock clock_;
  FakeKernel kernel_{&clock_};
  CpuUse cpu_use_;
  ModuleLimits limits_;
  std::optional<Modules> modules_;
};

// A build server: each step of a build is a program that never ran before. The stored hour names
// some of them. Others run all the time.
TEST_F(ModulesTest, AMonthOfNewProgramsLeavesNothingBehind) {
  constexpr int kPrograms = 6'000;
  constexpr int kHourOfPrograms = 400;
  constexpr int kServers = 20;
  Make({.modules = 256, .retired = {.modules = 2'000, .open_files = 64, .grace_ns = 0}});
  std::vector<std::unique_ptr<Mapped>> servers;
  std::vector<ModuleId> server_ids;
  for (int i = 0; i < kServers; ++i) {
    servers.push_back(std::make_unique<Mapped>(absl::StrCat(directory_.path(), "/server", i),
                                               Program(absl::StrCat("Serve", i))));
    kernel_.modules.Map(servers.back()->key());
    server_ids.push_back(*Walk(*servers.back()));
  }
  const size_t files_before = OpenFiles();
  std::deque<std::pair<ModuleId, std::string>> stored;  // the last hour: id, name
  uint32_t last_id = 0;
  size_t most_files = 0;
  for (int i = 0; i < kPrograms; ++i) {
    const std::string function = absl::StrCat("Step", i);
    const Mapped program(PathOf(i), Program(function));
    kernel_.modules.Map(program.key());
    const std::optional<ModuleId> id = Walk(program);
    ASSERT_TRUE(id) << i;
    EXPECT_GT(static_cast<uint32_t>(*id), last_id) << "used before";
    last_id = static_cast<uint32_t>(*id);
    EXPECT_TRUE(kernel_.modules.HasRules(program.key()));
    stored.emplace_back(*id, function);
    if (stored.size() > kHourOfPrograms) stored.pop_front();
    kernel_.modules.Unmap(program.key());
    if (i % 8 == 0) MakeRoom();
    if (i % 100 == 0) {
      absl::flat_hash_set<ModuleId> named;
      for (const auto& [stored_id, name] : stored) named.insert(stored_id);
      modules_->KeepOnly(named);
      EXPECT_LE(modules_->Use().retired, kHourOfPrograms + 100U);
      most_files = std::max(most_files, OpenFiles());
    }
    if (i % 3'000 == 2'999) {
      EXPECT_EQ(NameOf(stored.front().first), stored.front().second) << "the oldest of the hour";
      EXPECT_EQ(NameOf(*id), function);
    }
    if (i >= kHourOfPrograms) std::filesystem::remove(PathOf(i - kHourOfPrograms));
  }
  EXPECT_EQ(kernel_.modules.full(), 0U);
  EXPECT_EQ(modules_->forgotten(), 0U);
  EXPECT_LE(most_files, files_before + 256 + 64 + 8);
  for (int i = 0; i < kServers; ++i) {
    EXPECT_EQ(Walk(*servers[i]), server_ids[i]) << "never taken out: it is mapped";
    EXPECT_EQ(NameOf(server_ids[i]), absl::StrCat("Serve", i));
  }
  // An hour later nothing names them.
  modules_->KeepOnly({});
  EXPECT_EQ(modules_->Use().retired, 0U);
  EXPECT_LE(modules_->Use().in_use, 256U);
  EXPECT_EQ(NameOf(ModuleId{kServers + 1}), "[unknown module]");
  EXPECT_EQ(modules_->States().size(), modules_->Use().in_use);
}

TEST_F(ModulesTest, TheLeastRecentlyUsedGoFirstAndMappedOnesStay) {
  Make({.modules = 8, .retired = {}});
  std::vector<std::unique_ptr<Mapped>> files;
  std::vector<ModuleId> ids;
  for (int i = 0; i < 7; ++i) {
    files.push_back(std::make_unique<Mapped>(PathOf(i), Program(absl::StrCat("F", i))));
    if (i == 0) kernel_.modules.Map(files[0]->key());
    ids.push_back(*Walk(*files[i]));
    kernel_.AdvanceModuleClock();
  }
  Walk(*files[1]);  // the second runs again
  MakeRoom();       // to 6
  EXPECT_EQ(modules_->Use().in_use, 6U);
  EXPECT_EQ(*Walk(*files[0]), ids[0]) << "mapped";
  EXPECT_EQ(*Walk(*files[1]), ids[1]) << "used";
  EXPECT_NE(*Walk(*files[2]), ids[2]) << "the one that rested for the longest";
  for (int i = 3; i < 7; ++i) EXPECT_EQ(*Walk(*files[i]), ids[i]);
  EXPECT_EQ(NameOf(ids[2]), "F2") << "by its old id, too";
  EXPECT_EQ(NameOf(*Walk(*files[2])), "F2");
}

TEST_F(ModulesTest, AFullTableOfMappedFilesIsCounted) {
  Make({.modules = 4, .retired = {}});
  std::vector<std::unique_ptr<Mapped>> files;
  for (int i = 0; i < 5; ++i) {
    files.push_back(std::make_unique<Mapped>(PathOf(i), Program("F")));
    kernel_.modules.Map(files[i]->key());
    EXPECT_EQ(Walk(*files[i]).has_value(), i < 4);
  }
  EXPECT_TRUE(modules_->IsCrowded());
  MakeRoom();
  EXPECT_EQ(modules_->Use().in_use, 4U);
  EXPECT_EQ(modules_->Use().limit, 4U);
  EXPECT_FALSE(Walk(*files[4]));
  EXPECT_EQ(kernel_.modules.full(), 2U);
  kernel_.modules.Unmap(files[0]->key());
  MakeRoom();
  EXPECT_TRUE(Walk(*files[4]));
}

// The kernel sees another time of writing, so it is another module.
TEST_F(ModulesTest, AProgramWrittenInPlaceKeepsItsOldName) {
  Make({.retired = {}});
  const Mapped before(PathOf(0), Program("Before"));
  const ModuleId old = *Walk(before);
  EXPECT_EQ(NameOf(old), "Before");
  const Mapped after(PathOf(0), Program("After!"));
  ASSERT_EQ(before.key().ino, after.key().ino);
  const ModuleId now = *Walk(after);
  EXPECT_NE(now, old);
  EXPECT_EQ(NameOf(now), "After!");
}

TEST_F(ModulesTest, RulesWithoutRoomAreReadAgainWhenThereIsSome) {
  const Mapped first(PathOf(0), Program("First")), second(PathOf(1), Program("Second"));
  Make({.modules = 64, .rule_bytes = 60, .retired = {}});
  Walk(first);
  const uint64_t bytes = kernel_.RuleBytes();
  ASSERT_EQ(bytes, 16U) << "two rows";
  kernel_.modules.Map(second.key());
  const ModuleId left_out = *Walk(second);
  EXPECT_EQ(modules_->over_limit(), 1U);
  EXPECT_TRUE(modules_->IsCrowded());
  MakeRoom();
  const ModuleId again = *Walk(second);
  EXPECT_NE(again, left_out);
  EXPECT_EQ(modules_->over_limit(), 1U) << "only once";
  EXPECT_EQ(kernel_.RuleBytes(), bytes);
  EXPECT_FALSE(modules_->IsCrowded());
  EXPECT_EQ(NameOf(left_out), "Second");
}

TEST(ModuleTable, KeepsABoundedNumberOfRetiredModules) {
  ModuleTable table({.modules = 3, .open_files = 1, .grace_ns = 10 * kSecond});
  for (uint32_t i = 1; i <= 5; ++i) {
    Module module;
    module.fd = UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC));
    table.Add(ModuleId{i}, std::move(module));
    table.Retire(ModuleId{i}, i * kSecond);
  }
  EXPECT_EQ(table.retired(), 3U);
  EXPECT_EQ(table.forgotten(), 2U);
  Observe("loss", "modules_forgotten", table.forgotten());
  EXPECT_EQ(table.live(), 0U);
  EXPECT_EQ(table.Find(ModuleId{2}), nullptr);
  EXPECT_FALSE(table.Find(ModuleId{4})->fd.ok()) << "the latest only stays open";
  EXPECT_TRUE(table.Find(ModuleId{5})->fd.ok());
  table.KeepOnly({ModuleId{3}}, 14 * kSecond);
  EXPECT_NE(table.Find(ModuleId{3}), nullptr) << "named";
  EXPECT_EQ(table.Find(ModuleId{4}), nullptr);
  EXPECT_NE(table.Find(ModuleId{5}), nullptr) << "its stacks may still arrive";
}

TEST(ModuleTable, DeletedFilesHoldLittleOfTheDisk) {
  const test::TemporaryDirectory directory;
  ModuleTable table({.deleted_bytes = 100'000});
  for (uint32_t i = 1; i <= 3; ++i) {
    const std::string path = absl::StrCat(directory.path(), "/", i);
    Module module;
    module.fd = UniqueFd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    const std::string bytes(60'000, 'x');
    ASSERT_EQ(write(module.fd.get(), bytes.data(), bytes.size()), 60'000);
    table.Add(ModuleId{i}, std::move(module));
    table.Retire(ModuleId{i}, kSecond);
    if (i != 1) std::filesystem::remove(path);
  }
  table.KeepOnly({}, 2 * kSecond);
  EXPECT_TRUE(table.Find(ModuleId{1})->fd.ok()) << "not deleted";
  EXPECT_FALSE(table.Find(ModuleId{2})->fd.ok());
  EXPECT_TRUE(table.Find(ModuleId{3})->fd.ok()) << "the latest";
}

TEST(ModuleTable, AFileThatComesBackKeepsTheNumberOfItsProbes) {
  ModuleTable table({.grace_ns = 0});
  const auto module = [](uint64_t ino) {
    Module made;
    made.key.ino = ino;
    made.map_calls.push_back({});
    return made;
  };
  table.Add(ModuleId{1}, module(7));
  table.Add(ModuleId{2}, module(8));
  const WatchId watch = table.Watch(ModuleId{1});
  EXPECT_NE(watch, WatchId{});
  EXPECT_NE(table.Watch(ModuleId{2}), watch);
  table.Retire(ModuleId{1}, kSecond);
  EXPECT_EQ(table.Find(watch), table.Find(ModuleId{1})) << "probes may still stand in it";
  table.Add(ModuleId{3}, module(7));
  EXPECT_EQ(table.Watch(ModuleId{3}), watch);
  table.KeepOnly({}, 2 * kSecond);
  EXPECT_EQ(table.Find(watch), table.Find(ModuleId{3}));
  table.Retire(ModuleId{3}, 3 * kSecond);
  table.KeepOnly({}, 4 * kSecond);
  EXPECT_EQ(table.Find(watch), nullptr);
  EXPECT_EQ(table.Watch(ModuleId{3}), WatchId{});
}

TEST(FileVersion, OnlyTheSameVersionIsOpenedAgain) {
  const test::TemporaryDirectory directory;
  const std::string path = directory.path() + "/file";
  const auto put = [&](const char* text) {
    const UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    EXPECT_EQ(write(fd.get(), text, 3), 3);
    const timespec times[2] = {{}, {text[0], 0}};
    futimens(fd.get(), times);
    return VersionOf(fd.get());
  };
  const auto version = put("one");
  ASSERT_TRUE(version);
  EXPECT_TRUE(ReopenFile(-1, path, *version).ok());
  const UniqueFd root(open(directory.path().c_str(), O_PATH | O_CLOEXEC));
  EXPECT_TRUE(ReopenFile(root.get(), "/file", *version).ok());
  EXPECT_NE(put("two"), version);
  EXPECT_FALSE(ReopenFile(-1, path, *version).ok()) << "written in place";
  std::filesystem::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_FALSE(ReopenFile(-1, path, *version).ok());
  const UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_FALSE(VersionOf(null.get()));
}

}  // namespace
}  // namespace profd
