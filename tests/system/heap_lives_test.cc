// What becomes of targets whose allocations are watched: their files go, they fork and exec, they
// have a thousand threads, profd goes and comes. They run on with no probe left, and no link stays.
// Not scenarios: those cannot delete files, kill profd at some moment, or list links in the kernel.
#include <bpf/bpf.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "daemon/base/fd.h"
#include "nlohmann/json.hpp"
#include "tests/system/harness/checks.h"
#include "tests/system/harness/heap.h"

namespace profd::e2e {
namespace {

using testing::Each;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// The breakpoint that the kernel puts where a probe is.
constexpr uint8_t kBreakpoint = 0xCC;

// A byte of a process's code that is not as its file has it.
struct Patch {
  std::string file;
  uint64_t offset = 0;
  uint8_t byte = 0;
};

std::ostream& operator<<(std::ostream& out, const Patch& patch) {
  return out << patch.file << "+" << patch.offset << ": " << int{patch.byte};
}

struct Mapping {
  uint64_t begin = 0, end = 0, offset = 0;
  std::string path;
};

// The code of a process that lies in files.
std::vector<Mapping> CodeOf(int pid) {
  std::vector<Mapping> code;
  const auto maps = ReadWholeFile(absl::StrCat("/proc/", pid, "/maps"));
  EXPECT_TRUE(maps.ok()) << maps.status();
  if (!maps.ok()) return code;
  for (const absl::string_view line : absl::StrSplit(*maps, '\n', absl::SkipEmpty())) {
    // begin-end permissions offset device inode path
    const std::vector<absl::string_view> fields = absl::StrSplit(line, absl::MaxSplits(' ', 5));
    if (fields.size() < 6 || fields[1].size() < 3 || fields[1][2] != 'x' || fields[4] == "0") {
      continue;
    }
    const std::vector<absl::string_view> range = absl::StrSplit(fields[0], '-');
    Mapping mapping;
    EXPECT_TRUE(range.size() == 2 && absl::SimpleHexAtoi(range[0], &mapping.begin) &&
                absl::SimpleHexAtoi(range[1], &mapping.end) &&
                absl::SimpleHexAtoi(fields[2], &mapping.offset))
        << line;
    mapping.path = std::string(absl::StripLeadingAsciiWhitespace(fields[5]));
    code.push_back(std::move(mapping));
  }
  return code;
}

// Compares all of them with the files, also with files that are gone.
std::vector<Patch> PatchesOf(int pid) {
  std::vector<Patch> patches;
  const std::string process = absl::StrCat("/proc/", pid);
  const auto memory = OpenReadOnly(process + "/mem");
  EXPECT_TRUE(memory.ok()) << memory.status();
  const std::vector<Mapping> code = CodeOf(pid);
  EXPECT_FALSE(code.empty());
  for (const Mapping& mapping : code) {
    const auto file = OpenReadOnly(absl::StrCat(process, "/map_files/", absl::Hex(mapping.begin),
                                                "-", absl::Hex(mapping.end)));
    EXPECT_TRUE(file.ok()) << file.status();
    struct stat info = {};
    if (!memory.ok() || !file.ok() || fstat(file->get(), &info) != 0) continue;
    // The last page may reach beyond the file's end.
    const uint64_t in_file = static_cast<uint64_t>(info.st_size) - mapping.offset;
    const uint64_t size = std::min(mapping.end - mapping.begin, in_file);
    std::string expected(size, '\0'), actual(size, '\0');
    const absl::Status from_file =
        ReadFileAt(file->get(), mapping.offset, expected.data(), expected.size());
    const absl::Status from_memory =
        ReadFileAt(memory->get(), mapping.begin, actual.data(), actual.size());
    EXPECT_TRUE(from_file.ok()) << from_file;
    EXPECT_TRUE(from_memory.ok()) << from_memory;
    for (uint64_t i = 0; i < size; ++i) {
      if (actual[i] == expected[i]) continue;
      patches.push_back({mapping.path, mapping.offset + i, static_cast<uint8_t>(actual[i])});
    }
  }
  return patches;
}

void ExpectProbed(int pid) {
  const std::vector<Patch> patches = PatchesOf(pid);
  EXPECT_THAT(patches, Not(IsEmpty()));
  EXPECT_THAT(patches, Each(Field(&Patch::byte, kBreakpoint)));
}

// A profd that another test runs may watch every process for a while.
void ExpectUnprobed(int pid) {
  std::vector<Patch> patches;
  EXPECT_TRUE(Eventually(kPatience, [&] {
    patches = PatchesOf(pid);
    return patches.empty();
  })) << ::testing::PrintToString(patches);
}

// All BPF links of the system, by id. An id is not given twice in a short time.
std::set<uint32_t> SystemLinks() {
  std::set<uint32_t> ids;
  uint32_t id = 0;
  while (bpf_link_get_next_id(id, &id) == 0) ids.insert(id);
  return ids;
}

// Of those that a process holds.
std::set<uint32_t> LinksHeldBy(int pid) {
  std::set<uint32_t> ids;
  std::error_code error;
  const std::string directory = absl::StrCat("/proc/", pid, "/fdinfo");
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const auto text = ReadWholeFile(entry.path());
    if (!text.ok()) continue;  // closed by now
    for (absl::string_view line : absl::StrSplit(*text, '\n')) {
      uint32_t id = 0;
      if (!absl::ConsumePrefix(&line, "link_id:")) continue;
      EXPECT_TRUE(absl::SimpleAtoi(line, &id)) << line;
      ids.insert(id);
    }
  }
  EXPECT_FALSE(error) << directory;
  return ids;
}

class HeapLives : public HeapTest {
 protected:
  void SetUp() override {
    HeapTest::SetUp();
    if (IsSkipped()) return;
    for (const char* binary : {"alloc_jemalloc", "alloc_jemalloc_static"}) {
      if (!IsBuilt(binary)) GTEST_SKIP() << "not built: " << binary;
    }
  }

  // Ends profd; none of its links may be left in the system.
  void EndDaemon(int signal) {
    const std::set<uint32_t> held = LinksHeldBy(daemon_->process().pid());
    EXPECT_THAT(held, Not(IsEmpty()));
    daemon_->process().Signal(signal);
    EXPECT_EQ(daemon_->process().Wait(kLongestStop), signal == SIGTERM ? 0 : 128 + signal);
    std::vector<uint32_t> left;
    EXPECT_TRUE(Eventually(kPatience,
                           [&] {
                             left.clear();
                             std::ranges::set_intersection(SystemLinks(), held,
                                                           std::back_inserter(left));
                             return left.empty();
                           }))
        << left.size() << " of " << held.size() << " links are left";
  }

  // Bytes that profd has of a process, and those that it should have.
  void ExpectBytes(int pid, const std::string& kind, double usable, int threads = 1) {
    const Answer answer = Fetch(pid, kind);
    ExpectAddsUp(answer);
    EXPECT_EQ(answer.type().total().gaps(), 0U);
    EXPECT_NEAR(static_cast<double>(TotalBytes(answer)), usable,
                static_cast<double>(threads * kInterval));
  }

  const std::string linked_ = AllocBinary("alloc_jemalloc_static");
};

enum class Fate { kRenamed, kDeleted, kDeletedWhileWatched };

class FileGoes : public HeapLives, public testing::WithParamInterface<Fate> {};

TEST_P(FileGoes, ItIsWatchedAndNamedAllTheSame) {
  TemporaryDirectory directory;
  const std::string file = directory.path() + "/leaving";
  std::filesystem::copy_file(linked_, file);
  auto target = Allocating::Start(file, {"n=20000", "size=10000", "free=50"});
  ASSERT_NE(target, nullptr);
  const int pid = target->pid();
  switch (GetParam()) {
    case Fate::kRenamed:
      std::filesystem::rename(file, directory.path() + "/other");
      // Something else has its name now.
      std::filesystem::copy_file(AllocBinary("alloc_glibc"), file);
      break;
    case Fate::kDeleted:
      std::filesystem::remove(file);
      break;
    case Fate::kDeletedWhileWatched:
      break;
  }
  ASSERT_NO_FATAL_FAILURE(StartDaemon(std::to_string(pid)));
  EXPECT_EQ(AwaitWatched(pid).note(), "");
  if (GetParam() == Fate::kDeletedWhileWatched) std::filesystem::remove(file);
  ExpectProbed(pid);
  const nlohmann::json account = target->Run();
  ASSERT_TRUE(account.is_object());
  ExpectBytes(pid, "alloc", UsableBytes(account, "allocated"));
  ExpectBytes(pid, "free", UsableBytes(account, "freed"));
  const Answer answer = Fetch(pid, "alloc");
  EXPECT_GE(WholeShare(answer), 0.99);
  // The first thread's report took less than an event.
  EXPECT_NEAR(static_cast<double>(BytesBy(answer, "AllocSite")["AllocSite0"]),
              static_cast<double>(TotalBytes(answer)), kInterval);
  EndDaemon(SIGTERM);
  ExpectUnprobed(pid);
  EXPECT_EQ(target->End(), 0);
}

INSTANTIATE_TEST_SUITE_P(Fates, FileGoes,
                         testing::Values(Fate::kRenamed, Fate::kDeleted,
                                         Fate::kDeletedWhileWatched),
                         [](const auto& test) -> std::string {
                           switch (test.param) {
                             case Fate::kRenamed:
                               return "Renamed";
                             case Fate::kDeleted:
                               return "Deleted";
                             case Fate::kDeletedWhileWatched:
                               return "DeletedWhileWatched";
                           }
                           return "";
                         });

// In other code the places for probes may lie elsewhere.
TEST_F(HeapLives, FilesThatWereWrittenAreReadAgain) {
  TemporaryDirectory directory;
  const std::string file = directory.path() + "/rewritten";
  std::filesystem::copy_file(linked_, file);
  auto target = Allocating::Start(file, {"n=20000", "size=10000"});
  ASSERT_NE(target, nullptr);
  ASSERT_NO_FATAL_FAILURE(StartDaemon("^rewritten$"));
  EXPECT_EQ(AwaitWatched(target->pid()).note(), "");
  ExpectProbed(target->pid());
  EXPECT_EQ(target->End(), 0);
  {
    // Whoever reads /proc of a process that ends keeps its program from being written for a moment.
    UniqueFd written;
    ASSERT_TRUE(Eventually(kPatience, [&] {
      written.reset(open(file.c_str(), O_RDWR | O_CLOEXEC));
      return written.get() >= 0 || errno != ETXTBSY;
    }));
    char first = 0;
    ASSERT_EQ(pread(written.get(), &first, 1, 0), 1);
    ASSERT_EQ(pwrite(written.get(), &first, 1, 0), 1);
  }
  target = Allocating::Start(file, {"n=20000", "size=10000"});
  ASSERT_NE(target, nullptr);
  const int pid = target->pid();
  EXPECT_EQ(AwaitWatched(pid).note(), "");
  ExpectProbed(pid);
  EXPECT_EQ(target->End(), 0);
}

// profd ends, in order or not, and another one comes.
class ProfdGoes : public HeapLives, public testing::WithParamInterface<int> {};

TEST_P(ProfdGoes, TheNextOneGoesOn) {
  auto target = Allocating::Start(linked_, {"n=20000", "size=10000", "free=50"});
  ASSERT_NE(target, nullptr);
  const int pid = target->pid();
  ASSERT_NO_FATAL_FAILURE(StartDaemon(std::to_string(pid)));
  AwaitWatched(pid);
  ExpectProbed(pid);
  EndDaemon(GetParam());
  ExpectUnprobed(pid);
  // What it allocates now nobody sees.
  target->Go();
  ASSERT_TRUE(target->AwaitReady());
  ASSERT_NO_FATAL_FAILURE(StartDaemon(std::to_string(pid)));
  AwaitWatched(pid);
  ExpectProbed(pid);
  target->Go();
  const nlohmann::json account = target->Account();
  ASSERT_TRUE(account.is_object());
  ExpectBytes(pid, "free", UsableBytes(account, "freed"));
  EXPECT_EQ(TotalBytes(Fetch(pid, "alloc")), 0);
  EndDaemon(SIGTERM);
  ExpectUnprobed(pid);
  EXPECT_EQ(target->End(), 0);
}

INSTANTIATE_TEST_SUITE_P(Signals, ProfdGoes, testing::Values(SIGTERM, SIGKILL),
                         [](const auto& test) { return test.param == SIGTERM ? "Term" : "Kill"; });

// One PID, three programs: with jemalloc in a library, in itself, and without.
TEST_F(HeapLives, ExecsOtherPrograms) {
  auto target = Allocating::Start(AllocBinary("alloc_jemalloc"), {"n=20000", "size=10000"});
  ASSERT_NE(target, nullptr);
  const int pid = target->pid();
  // All three run the same libc.
  ASSERT_NO_FATAL_FAILURE(StartDaemon(std::to_string(pid), {"--disable", "mappings"}));
  AwaitWatched(pid, "libjemalloc");
  const nlohmann::json first = target->Run();
  ASSERT_TRUE(first.is_object());
  const double once = UsableBytes(first, "allocated");
  ExpectBytes(pid, "alloc", once);

  target->process().Write(absl::StrCat("exec ", linked_, " n=30000 size=5000\n"));
  ASSERT_TRUE(target->AwaitReady());
  ASSERT_EQ(target->ready_pid(), pid);
  AwaitWatched(pid, "alloc_jemalloc_static");
  ExpectProbed(pid);
  const nlohmann::json second = target->Run();
  ASSERT_TRUE(second.is_object());
  const double twice = once + UsableBytes(second, "allocated");
  ExpectBytes(pid, "alloc", twice, 2);

  target->process().Write(absl::StrCat("exec ", AllocBinary("alloc_glibc"), " n=10000\n"));
  ASSERT_TRUE(target->AwaitReady());
  ASSERT_EQ(target->ready_pid(), pid);
  ExpectUnprobed(pid);
  // It runs neither of the two allocators any more.
  EXPECT_TRUE(Eventually(kPatience, [&] {
    const auto status = daemon_->Status();
    return status.ok() && status->allocators().empty();
  }));
  ASSERT_TRUE(target->Run().is_object());
  ExpectBytes(pid, "alloc", twice, 2);
  EndDaemon(SIGTERM);
  EXPECT_EQ(target->End(), 0);
}

// The child has the parent's code, and a probe of its own.
TEST_F(HeapLives, ForkedChildrenHaveTheirOwnBytes) {
  auto target = Allocating::Start(linked_, {"n=20000", "size=10000"});
  ASSERT_NE(target, nullptr);
  const int pid = target->pid();
  ASSERT_NO_FATAL_FAILURE(StartDaemon(std::to_string(pid)));
  AwaitWatched(pid);
  const nlohmann::json account = target->Run();
  ASSERT_TRUE(account.is_object());
  target->process().Write("fork\n");
  ASSERT_TRUE(target->AwaitReady());
  const int child = target->ready_pid();
  ASSERT_NE(child, pid);
  AwaitWatched(child);
  ExpectProbed(child);
  target->Go();
  const nlohmann::json of_child = target->Account();
  ASSERT_TRUE(of_child.is_object());
  ASSERT_EQ(of_child["pid"], child);
  ExpectBytes(child, "alloc", UsableBytes(of_child, "allocated"));
  ExpectBytes(pid, "alloc", UsableBytes(account, "allocated"));
  EndDaemon(SIGTERM);
  ExpectUnprobed(pid);
  ExpectUnprobed(child);
  target->Go();  // the child ends, and the parent after it
  EXPECT_EQ(target->End(), 0);
}

// Two functions and a copy of the event look as jemalloc's do and are none. As soon as a few of
// their calls were seen they have no probes any more, and no byte of what came by there was
// counted.
TEST_F(HeapLives, WhatOnlyLooksLikeAnEventIsLeft) {
  constexpr uint32_t kDecoys = 2;
  if (!IsBuilt("alloc_jemalloc_decoys")) GTEST_SKIP() << "not built";
  auto target = Allocating::Start(AllocBinary("alloc_jemalloc_decoys"),
                                  {"n=400000", "size=700", "threads=2", "free=50"});
  ASSERT_NE(target, nullptr);
  const int pid = target->pid();
  ASSERT_NO_FATAL_FAILURE(StartDaemon(std::to_string(pid)));
  const v1::AllocatorStatus before = AwaitWatched(pid);
  EXPECT_EQ(before.found_by(), "shape");
  EXPECT_EQ(before.places(), kDecoys + 1);
  EXPECT_EQ(before.wrong_places(), 0U);
  const size_t patches = PatchesOf(pid).size();
  ASSERT_GT(patches, kDecoys);
  target->Go();
  ASSERT_TRUE(target->AwaitReady());
  v1::AllocatorStatus after;
  EXPECT_TRUE(Eventually(kPatience, [&] {
    after = AwaitWatched(pid);
    return after.wrong_places() == kDecoys;
  })) << after.DebugString();
  EXPECT_TRUE(Eventually(kPatience, [&] { return PatchesOf(pid).size() == patches - kDecoys; }))
      << PatchesOf(pid).size() << " of " << patches;
  target->Go();
  const nlohmann::json account = target->Account();
  ASSERT_TRUE(account.is_object());
  for (const auto& [kind, name] : {std::pair{"alloc", "allocated"}, std::pair{"free", "freed"}}) {
    SCOPED_TRACE(name);
    const Answer answer = Fetch(pid, kind);
    ExpectAddsUp(answer);
    ExpectExactByThread(answer, account, name);
    EXPECT_GE(answer.type().total().bytes(), UsableBytes(account, name) - 2 * kInterval);
  }
  EndDaemon(SIGTERM);
  ExpectUnprobed(pid);
  EXPECT_EQ(target->End(), 0);
}

TEST_F(HeapLives, ProcessesThatComeAndGoLeaveNoLink) {
  constexpr size_t kRounds = 4, kAtOnce = 5;
  // A name of its own: other tests run the same program at the same time.
  TemporaryDirectory directory;
  const std::string binary = directory.path() + "/comes_and_goes";
  std::filesystem::copy_file(linked_, binary);
  ASSERT_NO_FATAL_FAILURE(StartDaemon("^comes_and_goes$"));
  const int profd = daemon_->process().pid();
  const size_t held = LinksHeldBy(profd).size();
  ASSERT_GT(held, 0U);
  for (size_t round = 0; round < kRounds; ++round) {
    std::vector<std::unique_ptr<Allocating>> targets;
    for (size_t i = 0; i < kAtOnce; ++i) {
      targets.push_back(Allocating::Start(binary, {"n=2000", "size=10000"}));
      ASSERT_NE(targets.back(), nullptr);
    }
    for (const auto& target : targets) AwaitWatched(target->pid());
    // One at the allocator's events, and after a moment one at the calls of the libc; and beside
    // those of all processes a guard in either file.
    const size_t expected = held + 2 * kAtOnce + 2;
    EXPECT_TRUE(Eventually(kLongestStop, [&] { return LinksHeldBy(profd).size() == expected; }))
        << LinksHeldBy(profd).size() << " links, " << held << " before";
    // Some end by themselves, the others are killed.
    for (size_t i = 0; i < targets.size(); i += 2) {
      const nlohmann::json account = targets[i]->Run();
      ASSERT_TRUE(account.is_object());
      ExpectBytes(targets[i]->pid(), "alloc", UsableBytes(account, "allocated"));
      EXPECT_EQ(targets[i]->End(), 0);
    }
    targets.clear();
    EXPECT_TRUE(Eventually(kLongestStop, [&] { return LinksHeldBy(profd).size() == held; }))
        << LinksHeldBy(profd).size() << " links, " << held << " before";
  }
  const auto status = daemon_->Status();
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_THAT(status->allocators(), IsEmpty());
  EndDaemon(SIGTERM);
}

}  // namespace
}  // namespace profd::e2e
