// Modules, as they are announced, and their rules.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/source/record.h"
#include "daemon/symbolize/vdso.h"
#include "daemon/target/procfs.h"
#include "daemon/unwind/rule_table.h"
#include "daemon/unwind/rules.h"
#include "tests/bpf/kernel_fixture.h"

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Not;
using ::testing::SizeIs;

bool IsVdso(const profd_module_record& module) {
  return module.key.ino == PROFD_VDSO_INO && module.key.dev == PROFD_VDSO_DEV;
}

absl::StatusOr<UniqueFd> Open(const profd_module_record& module) {
  if (IsVdso(module)) return CopyVdso();
  ASSIGN_OR_RETURN(MappedModule mapped, OpenMapping(module.pid, module.start, module.end));
  return std::move(mapped.fd);
}

TEST_F(KernelTest, ModulesAreAnnouncedOnceAndRulesMakeWalksComplete) {
  START_OR_SKIP();
  const Child child([](Child&) { NapForever(2 * kMillisecond); });
  Mark(child);
  ASSERT_TRUE(kernel_->AnnounceMappings().ok());
  Poll();
  using Key = std::tuple<uint64_t, uint32_t, uint32_t>;
  const auto key_of = [](const profd_module_record& m) {
    return Key(m.key.ino, m.key.dev, m.key.generation);
  };
  std::set<Key> keys;
  for (const auto& module : modules_) EXPECT_TRUE(keys.insert(key_of(module)).second);
  ASSERT_GE(keys.size(), 4U) << "the program, the C library, the loader and the vDSO";
  EXPECT_EQ(std::count_if(modules_.begin(), modules_.end(), IsVdso), 1);
  const std::vector<profd_module_record> announced = std::exchange(modules_, {});

  const auto tick_until = [&](profd_walk walk) {
    return Eventually([&] {
      Tick();
      Poll();
      return std::any_of(stacks_.begin(), stacks_.end(), [&](const StackTrace& stack) {
        return stack.walk == WalkResult{static_cast<uint8_t>(walk)};
      });
    });
  };
  EXPECT_TRUE(tick_until(PROFD_WALK_RULES_PENDING));
  ASSERT_TRUE(kernel_->AnnounceMappings().ok());
  Poll();
  EXPECT_THAT(modules_, IsEmpty()) << "announced again";

  ASSERT_TRUE(kernel_->ForgetModule(announced[0].key).ok());
  ASSERT_TRUE(Eventually([&] {
    EXPECT_TRUE(kernel_->AnnounceMappings().ok());
    Poll();
    return !modules_.empty();
  }));
  ASSERT_THAT(modules_, SizeIs(1));
  EXPECT_EQ(key_of(modules_[0]), key_of(announced[0]));

  std::set<ModuleId> ids;
  for (const profd_module_record& module : announced) {
    const auto id = kernel_->ModuleIdOf(module.key);
    ASSERT_TRUE(id.ok()) << id.status();
    EXPECT_TRUE(ids.insert(*id).second);
    const auto fd = Open(module);
    ASSERT_TRUE(fd.ok()) << fd.status();
    const auto file = MappedFile::Map(fd->get());
    ASSERT_TRUE(file.ok()) << file.status();
    const auto table = CompileRules(file->bytes());
    ASSERT_TRUE(table.ok()) << table.status();
    Publish(module.key, table->rows);
  }
  EXPECT_GT(kernel_->RuleBytes(), 0U);
  stacks_.clear();
  EXPECT_TRUE(tick_until(PROFD_WALK_COMPLETE));
  const ModuleRules unknown = {.key = {.ino = 1, .dev = 2, .generation = 3}, .rows = {}};
  EXPECT_FALSE(kernel_->PublishRules({&unknown, 1}).at(0).ok());
}

// A process that is stuck with the lock of its memory map stops whoever looks at it.
TEST_F(KernelTest, MappingsOfOtherProcessesAreNotLookedAt) {
  START_OR_SKIP();
  const Child asked([](Child&) { NapForever(2 * kMillisecond); });
  const Child other([](Child&) { NapForever(2 * kMillisecond); });
  int32_t ended = 0;
  {
    const Child gone([](Child&) { NapForever(2 * kMillisecond); });
    ended = gone.pid();
  }
  Mark(asked);
  Mark(other);
  ASSERT_TRUE(kernel_->AnnounceMappings().ok());
  Poll();
  ASSERT_FALSE(modules_.empty());
  ASSERT_TRUE(kernel_->WatchModule(modules_[0].key, WatchId{7}).ok());
  const auto watched = [&](std::initializer_list<int32_t> pids) {
    EXPECT_TRUE(kernel_->AnnounceMappings(std::span(pids.begin(), pids.size())).ok());
    std::vector<int32_t> told;
    EXPECT_TRUE(kernel_
                    ->PollEvents([&](std::span<const uint8_t> bytes) {
                      const auto record = DecodeRecord<profd_watched_record>(bytes);
                      if (record.ok() && record->type == PROFD_RECORD_WATCHED) {
                        EXPECT_EQ(record->watch, 7U);
                        told.push_back(record->pid);
                      }
                    })
                    .ok());
    return told;
  };
  EXPECT_THAT(watched({asked.pid()}), ElementsAre(asked.pid()));
  EXPECT_THAT(watched({ended, other.pid()}), ElementsAre(other.pid()));
  EXPECT_THAT(watched({ended}), IsEmpty());
  EXPECT_THAT(watched({getppid()}), IsEmpty()) << "no target";
}

// A file of its own that processes map like code.
class Copy {
 public:
  explicit Copy(const std::string& path) : path_(path) {
    std::ofstream(path) << std::string(4096, 'x');
  }
  ~Copy() { std::filesystem::remove(path_); }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;

  // In the process that is to map it.
  void Map() const {
    const UniqueFd fd(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    if (mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd.get(), 0) == MAP_FAILED) {
      _exit(1);
    }
  }

 private:
  const std::string path_;
};

// How many files this program maps, and so its children; more than that by a few.
size_t OwnModules() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find(" r-xp ") != line.npos;
  return count;
}

TEST_F(KernelTest, EntriesOfModulesAreUsedAgainAndIdsAreNot) {
  const size_t kEntries = OwnModules() + 12;
  KernelOptions options = kCore;
  options.limits.modules = kEntries;
  START_OR_SKIP(options);
  std::string directory = "/tmp/profd_modulesXXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  std::set<ModuleId> ids;
  const std::vector<profd_rule> one_rule = {
      {.offset = 0, .rule = PROFD_RULE_PACK(PROFD_RULE_END, 0, 0)}};
  const uint64_t table_bytes = PackRules(one_rule).size() * sizeof(uint64_t);
  const auto look = [&] {
    EXPECT_TRUE(kernel_->AnnounceMappings().ok());
    Poll();
  };
  // Many more files than there are entries.
  for (size_t i = 0; i < 3 * kEntries; ++i) {
    const Copy copy(absl::StrCat(directory, "/copy", i));
    const Child child([&](Child&) {
      copy.Map();
      NapForever(2 * kMillisecond);
    });
    Mark(child);
    modules_.clear();
    look();
    ASSERT_THAT(modules_, Not(IsEmpty())) << i;
    for (const profd_module_record& module : std::exchange(modules_, {})) {
      const auto id = kernel_->ModuleIdOf(module.key);
      ASSERT_TRUE(id.ok()) << id.status();
      EXPECT_TRUE(ids.insert(*id).second) << "an id was used again";
      Publish(module.key, one_rule);
    }
    const size_t in_use = kernel_->ModulesInUse();
    ASSERT_LE(in_use, kEntries);
    const auto listed = kernel_->ListModules();
    ASSERT_TRUE(listed.ok()) << listed.status();
    EXPECT_EQ(listed->size(), in_use);
    if (in_use < kEntries - 1) continue;
    // Whatever this process maps is used now; the copies of those that ended are not.
    const uint32_t begin = kernel_->AdvanceModuleClock();
    look();
    std::vector<KnownModule> unused = *kernel_->ListModules();
    std::erase_if(unused, [&](const KnownModule& m) { return m.used >= begin; });
    EXPECT_GE(unused.size(), 2U);
    EXPECT_LT(unused.size(), in_use) << "what is mapped is in use";
    const uint64_t rules = kernel_->RuleBytes();
    kernel_->RemoveModules(unused);
    EXPECT_EQ(kernel_->ModulesInUse(), in_use - unused.size());
    EXPECT_EQ(kernel_->RuleBytes(), rules - unused.size() * table_bytes);
    for (const KnownModule& gone : unused) EXPECT_FALSE(kernel_->ModuleIdOf(gone.key).ok());
  }
  EXPECT_EQ(Loss(PROFD_LOSS_MODULES_FULL), 0U);
  // With all in use at one time, the loss is counted.
  std::vector<std::unique_ptr<Copy>> copies;
  for (size_t i = 0; i < kEntries; ++i) {
    copies.push_back(std::make_unique<Copy>(absl::StrCat(directory, "/more", i)));
  }
  const Child child([&](Child&) {
    for (const auto& copy : copies) copy->Map();
    NapForever(2 * kMillisecond);
  });
  Mark(child);
  look();
  EXPECT_EQ(kernel_->ModulesInUse(), kEntries);
  EXPECT_GT(Loss(PROFD_LOSS_MODULES_FULL), 0U);
  copies.clear();
  std::filesystem::remove(directory);
}

// A walk that has the mapping in its cache must not use what was removed, and its frames must get
// the new id.
TEST_F(KernelTest, WalksForgetModulesThatWereRemoved) {
  START_OR_SKIP();
  const Child child([](Child&) { NapForever(2 * kMillisecond); });
  Mark(child);
  ASSERT_TRUE(kernel_->AnnounceMappings().ok());
  Poll();
  const auto publish = [&] {
    for (const profd_module_record& module : std::exchange(modules_, {})) {
      const auto fd = Open(module);
      ASSERT_TRUE(fd.ok()) << fd.status();
      const auto file = MappedFile::Map(fd->get());
      ASSERT_TRUE(file.ok()) << file.status();
      const auto table = CompileRules(file->bytes());
      ASSERT_TRUE(table.ok()) << table.status();
      Publish(module.key, table->rows);
    }
  };
  const auto tick_until = [&](profd_walk walk) {
    stacks_.clear();
    return Eventually([&] {
      Tick();
      Poll();
      return std::any_of(stacks_.begin(), stacks_.end(), [&](const StackTrace& stack) {
        return stack.walk == WalkResult{static_cast<uint8_t>(walk)};
      });
    });
  };
  publish();
  ASSERT_TRUE(tick_until(PROFD_WALK_COMPLETE));
  std::set<ModuleId> before;
  const auto listed = kernel_->ListModules();
  ASSERT_TRUE(listed.ok());
  for (const KnownModule& module : *listed) before.insert(module.id);
  kernel_->RemoveModules(*listed);
  EXPECT_EQ(kernel_->ModulesInUse(), 0U);
  EXPECT_EQ(kernel_->RuleBytes(), 0U);

  EXPECT_TRUE(tick_until(PROFD_WALK_RULES_PENDING));
  ASSERT_TRUE(kernel_->AnnounceMappings().ok());
  Poll();
  EXPECT_THAT(modules_, Not(IsEmpty())) << "announced again";
  publish();
  EXPECT_TRUE(tick_until(PROFD_WALK_COMPLETE));
  for (const StackTrace& stack : stacks_) {
    for (const uint64_t frame : stack.frames) {
      EXPECT_FALSE(IsInFile(frame) && before.contains(ModuleOf(frame)))
          << "an id of before in a new walk";
    }
  }
}

// A file that is written in place is another module.
TEST_F(KernelTest, WrittenFilesAreOtherModules) {
  START_OR_SKIP();
  std::string directory = "/tmp/profd_modulesXXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  const std::string path = directory + "/copy";
  const Copy copy(path);
  std::set<std::pair<uint64_t, uint32_t>> keys;
  for (const int64_t second : {1'000, 1'001, 1'001}) {
    const timespec times[2] = {{second, 0}, {second, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
    const Child child([&](Child&) {
      copy.Map();
      NapForever(2 * kMillisecond);
    });
    Mark(child);
    modules_.clear();
    ASSERT_TRUE(kernel_->AnnounceMappings().ok());
    Poll();
    struct stat st;
    ASSERT_EQ(stat(path.c_str(), &st), 0);
    for (const profd_module_record& module : modules_) {
      if (module.key.ino == st.st_ino) keys.emplace(module.key.ino, module.key.generation);
    }
  }
  EXPECT_THAT(keys, SizeIs(2));
  std::filesystem::remove_all(directory);
}

// Two processors that come to a new file at the same time make one module of it.
TEST_F(KernelTest, ManyAtOnceMakeOneModule) {
  START_OR_SKIP();
  constexpr int kRounds = 20, kProcesses = 8;
  std::string directory = "/tmp/profd_modulesXXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  // Both may announce it, and the daemon reads it once.
  std::set<std::tuple<uint64_t, uint32_t, uint32_t>> announced;
  for (int i = 0; i < kRounds; ++i) {
    const Copy copy(absl::StrCat(directory, "/copy", i));
    std::vector<std::unique_ptr<Child>> children;
    for (int k = 0; k < kProcesses; ++k) {
      children.push_back(std::make_unique<Child>([&](Child&) {
        copy.Map();
        NapForever(2 * kMillisecond);
      }));
      Mark(*children.back());
    }
    // Looks of their own run beside each other.
    std::vector<std::thread> lookers;
    for (int k = 0; k < 2; ++k) {
      lookers.emplace_back([&] { EXPECT_TRUE(kernel_->AnnounceMappings().ok()); });
    }
    for (std::thread& looker : lookers) looker.join();
    Poll();
    for (const profd_module_record& module : std::exchange(modules_, {})) {
      announced.emplace(module.key.ino, module.key.dev, module.key.generation);
    }
  }
  const auto listed = kernel_->ListModules();
  ASSERT_TRUE(listed.ok());
  EXPECT_EQ(listed->size(), kernel_->ModulesInUse());
  EXPECT_EQ(listed->size(), announced.size());
  uint32_t largest = 0;
  for (const KnownModule& module : *listed) {
    largest = std::max(largest, static_cast<uint32_t>(module.id));
  }
  EXPECT_EQ(largest, listed->size()) << "an id was wasted";
  std::filesystem::remove(directory);
}

TEST_F(KernelTest, TellsWhoseMemoryMapIsLocked) {
  START_OR_SKIP();
  const Child child([](Child& me) {
    constexpr size_t kBytes = 64 << 20;
    void* const memory =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || madvise(memory, kBytes, MADV_NOHUGEPAGE) != 0) _exit(1);
    std::memset(memory, 1, kBytes);
    me.Signal();
    while (mprotect(memory, kBytes, PROT_READ) == 0 &&
           mprotect(memory, kBytes, PROT_READ | PROT_WRITE) == 0) {
      Nap(kMillisecond);
    }
    _exit(1);
  });
  child.Wait();
  Mark(child);
  bool locked = false, free = false;
  EXPECT_TRUE(Eventually([&] {
    const auto processes = kernel_->MappingProcesses();
    if (!processes.ok()) return false;
    for (const profd_mapping_process& process : *processes) {
      if (process.pid == child.pid()) (process.locked != 0 ? locked : free) = true;
    }
    return locked && free;
  })) << "locked: "
      << locked << ", free: " << free;
}

}  // namespace
}  // namespace profd
