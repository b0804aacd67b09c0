// glibc's malloc by bursts of tracing where a scenario cannot say it: probes are looked for in a
// process's code, and processes fork, exec and are killed. Estimates are in
// tests/scenarios/malloc*.toml.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "daemon/base/clock.h"
#include "daemon/base/fd.h"
#include "daemon/heap/glibc.h"
#include "nlohmann/json.hpp"
#include "tests/system/harness/checks.h"
#include "tests/system/harness/heap.h"
#include "tests/system/harness/servers.h"

namespace profd::e2e {
namespace {

using testing::Contains;

// Where the C library of a process lies.
struct Library {
  std::string path;
  std::vector<std::pair<uint64_t, uint64_t>> code;  // address less file offset, size; by mapping
  std::vector<uint64_t> offsets;                    // of the mappings in the file
};

Library LibraryOf(int pid) {
  Library library;
  const auto maps = ReadWholeFile(absl::StrCat("/proc/", pid, "/maps"));
  EXPECT_TRUE(maps.ok()) << maps.status();
  if (!maps.ok()) return library;
  for (const absl::string_view line : absl::StrSplit(*maps, '\n')) {
    uint64_t begin = 0, end = 0, offset = 0;
    char mode[5], path[512];
    if (sscanf(std::string(line).c_str(), "%lx-%lx %4s %lx %*s %*s %511s", &begin, &end, mode,
               &offset, path) != 5 ||
        !absl::StrContains(path, "libc.so") || mode[2] != 'x') {
      continue;
    }
    library.path = path;
    library.code.emplace_back(begin, end - begin);
    library.offsets.push_back(offset);
  }
  return library;
}

// How many of the functions that bursts trace begin with a breakpoint in this process.
int CountProbes(int pid) {
  const Library library = LibraryOf(pid);
  const UniqueFd file(open(library.path.c_str(), O_RDONLY | O_CLOEXEC));
  const auto found = FindGlibc(file.get());
  EXPECT_TRUE(found.ok() && *found) << library.path;
  if (!found.ok() || !*found) return -1;
  const UniqueFd memory(open(absl::StrCat("/proc/", pid, "/mem").c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(memory.ok());
  int probes = 0;
  for (const GlibcFunction& function : (*found)->functions) {
    for (size_t i = 0; i < library.code.size(); ++i) {
      const auto [begin, size] = library.code[i];
      const uint64_t offset = library.offsets[i];
      if (function.offset < offset || function.offset - offset >= size) continue;
      uint8_t byte = 0;
      const auto at = static_cast<off_t>(begin + (function.offset - offset));
      EXPECT_EQ(pread(memory.get(), &byte, 1, at), 1);
      probes += byte == 0xcc ? 1 : 0;
    }
  }
  return probes;
}

// tests/targets/churn.cc.
class Churning {
 public:
  static std::unique_ptr<Churning> Start() {
    auto process = Subprocess::Start({.argv = {AllocBinary("churn")}});
    EXPECT_TRUE(process.ok()) << process.status();
    if (!process.ok()) return nullptr;
    const bool ready = (*process)->LineWith(Stream::kStdout, "ready", seconds(30)).has_value();
    EXPECT_TRUE(ready);
    if (!ready) return nullptr;
    return std::unique_ptr<Churning>(new Churning(*std::move(process)));
  }
  int pid() const { return process_->pid(); }
  Subprocess& process() { return *process_; }
  // Bytes by place, so far.
  std::map<std::string, double> Read() {
    process_->Write("read\n");
    const auto line = process_->LineWith(Stream::kStdout, "{", seconds(60));
    EXPECT_TRUE(line.has_value());
    if (!line) return {};
    return nlohmann::json::parse(*line).get<std::map<std::string, double>>();
  }
  // A child that does the same; its PID.
  int Fork() {
    process_->Write("fork\n");
    const auto line = process_->LineWith(Stream::kStdout, "child", seconds(60));
    EXPECT_TRUE(line.has_value());
    int pid = 0;
    EXPECT_TRUE(line && absl::SimpleAtoi(absl::StripPrefix(*line, "child "), &pid));
    return pid;
  }

 private:
  explicit Churning(std::unique_ptr<Subprocess> process) : process_(std::move(process)) {}
  std::unique_ptr<Subprocess> process_;
};

class BurstsTest : public testing::Test {
 protected:
  void SetUp() override { SKIP_UNLESS_ROOT(); }

  void StartDaemon(std::vector<std::string> targets, std::vector<std::string> arguments) {
    daemon_.reset();
    auto daemon = Daemon::Start({.targets = std::move(targets), .arguments = std::move(arguments)});
    ASSERT_TRUE(daemon.ok()) << daemon.status();
    daemon_ = *std::move(daemon);
  }

  v1::AllocatorStatus AwaitBursts(int pid) {
    v1::AllocatorStatus found;
    EXPECT_TRUE(Eventually(kPatience, [&] {
      const auto status = daemon_->Status();
      if (!status.ok()) return false;
      for (const v1::AllocatorStatus& allocator : status->allocators()) {
        if (allocator.allocator() != "glibc") continue;
        if (std::count(allocator.pids().begin(), allocator.pids().end(), pid) == 0) continue;
        found = allocator;
        return allocator.watched() && allocator.allocated().estimated_bytes() > 0;
      }
      return false;
    })) << found.DebugString();
    return found;
  }

  Answer Fetch(const std::string& kind, int64_t begin_ns, int64_t end_ns, int pid = 0) {
    v1::FetchRequest request;
    request.add_sample_types(kind);
    request.mutable_window()->set_begin_ns(begin_ns);
    request.mutable_window()->set_end_ns(end_ns);
    if (pid != 0) request.add_targets(std::to_string(pid));
    absl::StatusOr<Answer> answer = daemon_->Fetch(request);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? *std::move(answer) : Answer{};
  }

  std::unique_ptr<Daemon> daemon_;
};

class MallocTest : public BurstsTest {
 protected:
  void SetUp() override {
    BurstsTest::SetUp();
    if (IsSkipped()) return;
    target_ = Churning::Start();
    ASSERT_NE(target_, nullptr);
  }

  void StartDaemon(std::vector<std::string> arguments) {
    BurstsTest::StartDaemon({std::to_string(target_->pid())}, std::move(arguments));
  }

  std::unique_ptr<Churning> target_;
};

// A window in which no burst was says so, instead of nothing having been allocated.
TEST_F(MallocTest, WindowWithoutABurstSaysSo) {
  ASSERT_NO_FATAL_FAILURE(StartDaemon({"--malloc-burst", "10ms/3600s"}));
  ASSERT_TRUE(Eventually(kPatience, [&] {
    const auto status = daemon_->Status();
    return status.ok() && !status->allocators().empty();
  }));
  std::this_thread::sleep_for(milliseconds(1200));
  const Answer answer = Fetch("alloc", WallNs() - 1'000'000'000, 0);
  EXPECT_EQ(answer.coverage().bursts(), 0U);
  EXPECT_GT(answer.coverage().bursts_on_ns(), 0);
  EXPECT_EQ(answer.type().watched_ns(), 0);
  EXPECT_TRUE(answer.samples.empty());
}

// Probes stand in targets only, in bursts only; and not for longer than profd lives.
TEST_F(MallocTest, ProbesComeAndGo) {
  const std::unique_ptr<Churning> other = Churning::Start();
  ASSERT_NE(other, nullptr);
  ASSERT_NO_FATAL_FAILURE(StartDaemon({"--malloc-burst", "50ms/500ms", "--budget", "off"}));
  AwaitBursts(target_->pid());
  int most = 0;
  bool gone = false;
  ASSERT_TRUE(Eventually(kPatience, [&] {
    const int probes = CountProbes(target_->pid());
    gone = gone || (most > 0 && probes == 0);
    most = std::max(most, probes);
    EXPECT_EQ(CountProbes(other->pid()), 0);
    return gone;
  }));
  EXPECT_GE(most, 4) << "malloc, calloc, realloc and free";
  // In the middle of one.
  ASSERT_TRUE(Eventually(kPatience, [&] { return CountProbes(target_->pid()) > 0; }));
  daemon_->process().Signal(SIGKILL);
  daemon_->process().Wait(kLongestStop);
  EXPECT_TRUE(Eventually(kPatience, [&] { return CountProbes(target_->pid()) == 0; }));
  EXPECT_FALSE(target_->Read().empty()) << "the target did not survive";
}

// Children are traced in later bursts, and a process that became another program.
TEST_F(MallocTest, FollowsForkAndExec) {
  ASSERT_NO_FATAL_FAILURE(StartDaemon({"--malloc-burst", "10ms/500ms", "--budget", "off"}));
  const int child = target_->Fork();
  ASSERT_GT(child, 0);
  EXPECT_THAT(AwaitBursts(child).pids(), Contains(target_->pid()));
  ASSERT_TRUE(Eventually(kPatience, [&] {
    return TotalBytes(Fetch("alloc", WallNs() - 5'000'000'000, 0, child)) > 0;
  }));
  kill(child, SIGKILL);
  EXPECT_TRUE(Eventually(kPatience, [&] {
    const auto status = daemon_->Status();
    if (!status.ok() || status->allocators_size() != 1) return false;
    return status->allocators(0).pids_size() == 1;
  }));
  target_->process().Write("exec\n");
  ASSERT_TRUE(target_->process().LineWith(Stream::kStdout, "ready", seconds(60)).has_value());
  const int64_t begin = WallNs();
  EXPECT_TRUE(Eventually(kPatience,
                         [&] { return TotalBytes(Fetch("alloc", begin, 0, target_->pid())) > 0; }));
}

// A static program without symbols, with a libc of its own.
TEST(UnknownAllocatorTest, IsSaid) {
  const std::string busybox = FindProgram("busybox");
  if (busybox.empty()) GTEST_SKIP() << "no busybox";
  auto unknown = Subprocess::Start({.argv = {busybox, "sleep", "1000"}});
  auto known = Subprocess::Start({.argv = {"sleep", "1000"}});
  ASSERT_TRUE(unknown.ok() && known.ok());
  auto daemon = Daemon::Start(
      {.targets = {std::to_string((*unknown)->pid()), std::to_string((*known)->pid())}});
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  EXPECT_TRUE(Eventually(kPatience, [&] {
    const auto status = (*daemon)->Status();
    return status.ok() && status->unknown_allocators_size() == 1 &&
           status->unknown_allocators(0).pid() == (*unknown)->pid();
  }));
}

}  // namespace
}  // namespace profd::e2e
