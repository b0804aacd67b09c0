#include "daemon/symbolize/perf_maps.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/service/frame_names.h"
#include "daemon/service/named_stacks.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/fake_proc.h"
#include "tests/unit/jit_dump.h"

namespace profd {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kEnoughBytes = 1 << 20;
constexpr uint64_t kJitCode = 0x7f0000001000;

class PerfMapsTest : public ::testing::Test {
 protected:
  static constexpr int32_t kPid = 70;
  static constexpr ProcessId kProcess = {.pid = kPid, .start_ns = 42'000'000'000};

  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "perf_maps.XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    proc_ = std::make_unique<FakeProc>(folder_ + "/proc");
    AddProcess(kPid, "70\t5", getuid());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void AddProcess(int32_t pid, const std::string& pids, uid_t user) {
    proc_->Set(pid, {});
    proc_->Write(absl::StrCat(pid, "/status"),
                 absl::StrCat("Name:\tnode\nUid:\t9\t", user, "\t9\t9\nNSpid:\t", pids, "\n"));
    std::filesystem::create_directories(Root(pid) + "/tmp");
  }
  std::string Root(int32_t pid) const { return absl::StrCat(proc_->path(), "/", pid, "/root"); }
  std::string MapPath() const { return Root(kPid) + "/tmp/perf-5.map"; }
  static void Write(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::app) << text;
  }

  // The name of kJitCode, "" for none.
  std::string Name(PerfMaps& maps, const ProcessId& process = kProcess) {
    uint64_t bytes_left = kEnoughBytes;
    const auto names = maps.Find(process, maps.Look(process), std::vector{kJitCode}, &bytes_left);
    return names.ok() ? names->at(0) : "";
  }
  std::string NameAnew() {
    PerfMaps maps(proc_->path());
    return Name(maps);
  }

  std::string folder_;
  std::unique_ptr<FakeProc> proc_;
};

TEST_F(PerfMapsTest, IsFoundByThePidInItsNamespace) {
  EXPECT_EQ(NameAnew(), "");
  Write(Root(kPid) + "/tmp/perf-70.map", "7f0000001000 10 other\n");
  EXPECT_EQ(NameAnew(), "");
  Write(MapPath(), "7f0000001000 10 fib\n");
  EXPECT_EQ(NameAnew(), "fib");
}

TEST_F(PerfMapsTest, IsReadAgainWhenItGrows) {
  PerfMaps maps(proc_->path());
  EXPECT_EQ(maps.Look(kProcess).version, 0U);
  Write(MapPath(), "7f0000001000 10 old\n");
  const uint64_t version = maps.Look(kProcess).version;
  EXPECT_NE(version, 0U);
  EXPECT_EQ(maps.Look(kProcess).version, version);
  Write(MapPath(), "7f0000001000 10 new\n");
  EXPECT_NE(maps.Look(kProcess).version, version);
  EXPECT_EQ(Name(maps), "new");
}

TEST_F(PerfMapsTest, BelongsToOneProcess) {
  PerfMaps maps(proc_->path());
  Write(MapPath(), "7f0000001000 10 fib\n");
  const uint64_t version = maps.Look(kProcess).version;
  EXPECT_EQ(Name(maps, {.pid = kPid, .start_ns = kProcess.start_ns + 10'000'000}), "")
      << "another process that had the PID";
  EXPECT_EQ(Name(maps, {.pid = kPid, .start_ns = 0}), "");
  EXPECT_EQ(Name(maps, {.pid = kPid + 1, .start_ns = kProcess.start_ns}), "");
  proc_->Remove(kPid);
  const PerfMap map = maps.Look(kProcess);
  EXPECT_EQ(map.version, version) << "what it said holds after it ended";
  EXPECT_FALSE(map.fd.ok());
}

TEST_F(PerfMapsTest, MustBelongToTheUser) {
  Write(MapPath(), "7f0000001000 10 fib\n");
  AddProcess(kPid, "70\t5", getuid() + 1);
  EXPECT_EQ(NameAnew(), "");
  AddProcess(kPid, "70\t5", getuid());
  EXPECT_EQ(NameAnew(), "fib");
}

TEST_F(PerfMapsTest, MustBeARegularFile) {
  ASSERT_EQ(mkfifo(MapPath().c_str(), 0600), 0);
  EXPECT_EQ(NameAnew(), "");
  std::filesystem::remove(MapPath());
  std::filesystem::create_directory(MapPath());
  EXPECT_EQ(NameAnew(), "");
  std::filesystem::remove(MapPath());
  Write(MapPath(), "7f0000001000 10 fib\n");
  EXPECT_EQ(NameAnew(), "fib");
}

TEST_F(PerfMapsTest, NoSymbolicLinkLeadsToIt) {
  const std::string elsewhere = folder_ + "/elsewhere";
  std::filesystem::create_directory(elsewhere);
  Write(elsewhere + "/perf-5.map", "7f0000001000 10 outside\n");
  std::filesystem::create_symlink(elsewhere + "/perf-5.map", MapPath());
  EXPECT_EQ(NameAnew(), "");
  std::filesystem::remove_all(Root(kPid) + "/tmp");
  std::filesystem::create_directory_symlink(elsewhere, Root(kPid) + "/tmp");
  EXPECT_EQ(NameAnew(), "");
  std::filesystem::remove(Root(kPid) + "/tmp");
  std::filesystem::create_directory_symlink("../../../elsewhere", Root(kPid) + "/tmp");
  EXPECT_EQ(NameAnew(), "");
}

TEST_F(PerfMapsTest, IsReadWholeOrNotAtAll) {
  PerfMaps maps(proc_->path());
  Write(MapPath(), "7f0000001000 10 fib\n");
  const PerfMap map = maps.Look(kProcess);
  uint64_t bytes_left = 19;
  EXPECT_TRUE(absl::IsResourceExhausted(
      maps.Find(kProcess, map, std::vector{kJitCode}, &bytes_left).status()));
  EXPECT_EQ(bytes_left, 19U);
  bytes_left = 20;
  EXPECT_TRUE(maps.Find(kProcess, map, std::vector{kJitCode}, &bytes_left).ok());
  EXPECT_EQ(bytes_left, 0U);
}

TEST_F(PerfMapsTest, AJitDumpIsFoundWhereItIsMapped) {
  const std::string place = Root(kPid) + "/app/jit-5.dump";
  std::filesystem::create_directories(Root(kPid) + "/app");
  Write(place, test::JitDumpWriter().Load(kJitCode, "fib", "1234", 1).bytes());
  EXPECT_EQ(NameAnew(), "");
  const auto map = [&](const std::string& access, const std::string& path) {
    proc_->Write(absl::StrCat(kPid, "/maps"), absl::StrCat("7f0000000000-7f0000001000 ", access,
                                                           " 00000000 08:01 12   ", path, "\n"));
  };
  map("r--p", "/app/jit-5.dump");
  EXPECT_EQ(NameAnew(), "");
  map("r-xp", "/app/jit-6.dump");
  EXPECT_EQ(NameAnew(), "");
  map("r-xp", "/app/jit-5.dump");
  EXPECT_EQ(NameAnew(), "fib");
  PerfMaps maps(proc_->path());
  const uint64_t before = maps.Look(kProcess).version;
  EXPECT_NE(before, 0U);
  Write(place, "more");
  EXPECT_NE(maps.Look(kProcess).version, before);
  // A perf map has lines, too, that the dump has not.
  Write(MapPath(), "7f0000001000 10 listed\n");
  EXPECT_EQ(NameAnew(), "listed");
  std::filesystem::remove(MapPath());
  std::filesystem::remove(place);
  std::filesystem::create_symlink(folder_ + "/elsewhere", place);
  EXPECT_EQ(NameAnew(), "");
}

// Equal addresses, and so equal stacks, of two processes.
TEST_F(PerfMapsTest, ProcessesDoNotShareNames) {
  constexpr int32_t kOther = 80, kThird = 90;
  AddProcess(kOther, "80", getuid());
  AddProcess(kThird, "90", getuid());
  Write(MapPath(), "7f0000001000 10 first\n");
  Write(Root(kOther) + "/tmp/perf-80.map", "7f0000001000 10 x\xff\x01y\n");
  const auto stack = std::make_shared<const StackTrace>(
      StackTrace{.id = StackId{1}, .kernel_frames = 0, .frames = {kJitCode, kJitCode + 0x10}});
  const ProcessId other = {.pid = kOther, .start_ns = kProcess.start_ns};
  const ProcessId third = {.pid = kThird, .start_ns = kProcess.start_ns};
  FrameNames names(nullptr, {.symbols = "/nonexistent"}, {}, proc_->path());
  const auto functions = [&](const std::vector<ProcessId>& processes) {
    NamedStacks stacks(std::vector{stack});
    for (const ProcessId& process : processes) stacks.Add(stack->id, process);
    stacks.Name(&names);
    std::vector<std::string> found;
    for (const ProcessId& process : processes) {
      const NamedStack& named = stacks.stacks()[stacks.NumberOf(stack->id, process)];
      // The second address is that of a return: the byte before it belongs to the function.
      EXPECT_EQ(stacks.frames()[named.frames[0]].function,
                stacks.frames()[named.frames[1]].function);
      const NamedFrame& frame = stacks.frames()[named.frames[0]];
      EXPECT_EQ(frame.offset, kJitCode);
      EXPECT_EQ(frame.found_by == NameSource::kPerfMap, frame.module == "[jit]");
      found.push_back(frame.function);
    }
    return found;
  };
  EXPECT_THAT(functions({kProcess, other, third}), ElementsAre("first", "x??y", "[unmapped code]"));
  // From the cache, and after one has ended and another has grown.
  Write(Root(kThird) + "/tmp/perf-90.map", "7f0000001000 10 third\n");
  Write(Root(kOther) + "/tmp/perf-80.map", "7f0000001000 10 fourth\n");
  proc_->Remove(kPid);
  EXPECT_THAT(functions({kProcess, other, third}), ElementsAre("first", "fourth", "third"));
}

TEST_F(PerfMapsTest, FilesDoNotDependOnTheProcess) {
  const auto stack = std::make_shared<const StackTrace>(StackTrace{
      .id = StackId{1}, .kernel_frames = 1, .frames = {~uint64_t{0}, PROFD_FRAME(3, 0x1000)}});
  NamedStacks stacks(std::vector{stack});
  EXPECT_EQ(stacks.Add(stack->id, kProcess), 1U);
  EXPECT_EQ(stacks.Add(stack->id, {.pid = 1, .start_ns = 1}), 1U);
  EXPECT_EQ(stacks.Add(StackId{9}, kProcess), stacks.Add(StackId{9}, {.pid = 1, .start_ns = 1}));
  EXPECT_EQ(stacks.Add(StackId{}, kProcess), 0U);
}

}  // namespace
}  // namespace profd
