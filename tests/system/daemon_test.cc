// What profd does to its surroundings: files, signals, who is watched without --target. Each of
// these starts, kills or inspects the daemon itself, which a scenario does not; what it answers and
// refuses is in tests/scenarios.
#include "tests/system/harness/daemon.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/support/machine.h"
#include "tests/system/harness/checks.h"
#include "tests/system/harness/target.h"

namespace profd::e2e {
namespace {

constexpr milliseconds kAttached = seconds(60);

class DaemonTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override { REQUIRE_FACT("root"); }

  void Start(Daemon::Options options) {
    options.budgets = GetParam();
    absl::StatusOr<std::unique_ptr<Daemon>> daemon = Daemon::Start(options);
    ASSERT_TRUE(daemon.ok()) << daemon.status();
    daemon_ = *std::move(daemon);
  }
  void StartTarget() {
    absl::StatusOr<std::unique_ptr<Target>> target = Target::Start({"stuck"});
    ASSERT_TRUE(target.ok()) << target.status();
    target_ = *std::move(target);
  }
  std::string Said() { return daemon_->process().Output(Subprocess::Stream::kStderr); }

  TemporaryDirectory directory_;
  std::unique_ptr<Target> target_;
  std::unique_ptr<Daemon> daemon_;
};

INSTANTIATE_TEST_SUITE_P(, DaemonTest, testing::Values(true, false),
                         [](const auto& test) { return test.param ? "AsShipped" : "BudgetsOff"; });

TEST_P(DaemonTest, LeavesNothingBehind) {
  ASSERT_NO_FATAL_FAILURE(StartTarget());
  ASSERT_NO_FATAL_FAILURE(Start({.targets = {std::to_string(target_->pid())}}));
  struct stat st;
  ASSERT_EQ(stat(daemon_->socket().c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0007, 0U) << "the socket must not be open to everyone";
  EXPECT_EQ(daemon_->Stop(), 0) << Said();
  EXPECT_NE(stat(daemon_->socket().c_str(), &st), 0) << "the socket was left behind";
  EXPECT_FALSE(target_->process().Wait(milliseconds(0)).has_value()) << "the target ended";
}

TEST_P(DaemonTest, StartsAgainAfterKill) {
  ASSERT_NO_FATAL_FAILURE(StartTarget());
  const std::string socket = directory_.path() + "/profd.sock";
  const std::string pid = std::to_string(target_->pid());
  ASSERT_NO_FATAL_FAILURE(Start({.targets = {pid}, .socket = socket}));
  ASSERT_TRUE(daemon_->AwaitTarget(target_->pid(), kAttached).has_value()) << Said();
  daemon_->process().Signal(SIGKILL);
  ASSERT_EQ(daemon_->process().Wait(seconds(60)), 128 + SIGKILL);
  ASSERT_TRUE(std::filesystem::exists(socket));
  ASSERT_NO_FATAL_FAILURE(Start({.targets = {pid}, .socket = socket}));
  EXPECT_TRUE(daemon_->AwaitTarget(target_->pid(), kAttached).has_value()) << Said();
  EXPECT_EQ(daemon_->Stop(), 0);
}

// Without --target: every process that profd sees, but itself.
TEST_P(DaemonTest, WatchesEverythingButItself) {
  ASSERT_NO_FATAL_FAILURE(StartTarget());
  ASSERT_NO_FATAL_FAILURE(Start({}));
  ASSERT_TRUE(daemon_->AwaitTarget(target_->pid(), kAttached).has_value()) << Said();
  const auto late = Target::Start({"stuck"});
  ASSERT_TRUE(late.ok()) << late.status();
  EXPECT_TRUE(daemon_->AwaitTarget((*late)->pid(), kAttached).has_value())
      << "a process that starts later";
  const auto itself = daemon_->FetchProcess(daemon_->process().pid());
  EXPECT_TRUE(absl::IsNotFound(itself.status())) << itself.status();
  EXPECT_EQ(daemon_->Stop(), 0) << Said();
}

// A cgroup whose number of threads can be limited, for as long as this lives.
class PidsCgroup {
 public:
  PidsCgroup() : path_(absl::StrCat(test::PidsCgroups(), "/profd-test-", getpid())) {
    // Needed for version 2 only.
    std::ofstream(test::PidsCgroups() + "/cgroup.subtree_control") << "+pids";
    EXPECT_EQ(mkdir(path_.c_str(), 0755), 0) << path_;
  }
  ~PidsCgroup() { rmdir(path_.c_str()); }
  void Write(const std::string& file, const std::string& text) {
    EXPECT_TRUE(std::ofstream(path_ + "/" + file) << text << std::flush) << path_ << "/" << file;
  }
  std::string Read(const std::string& file) {
    std::ifstream in(path_ + "/" + file);
    std::string word;
    EXPECT_TRUE(in >> word) << path_ << "/" << file;
    return word;
  }

 private:
  const std::string path_;
};

// As in a container with a low pids.max next to a storm of processes.
TEST_P(DaemonTest, ThreadsThatTheKernelRefuses) {
  REQUIRE_FACT("kernel.cgroup_pids");
  PidsCgroup cgroup;
  ASSERT_NO_FATAL_FAILURE(StartTarget());
  ASSERT_NO_FATAL_FAILURE(Start({.targets = {std::to_string(target_->pid())}}));
  ASSERT_TRUE(daemon_->AwaitTarget(target_->pid(), kAttached).has_value()) << Said();
  cgroup.Write("cgroup.procs", std::to_string(daemon_->process().pid()));
  cgroup.Write("pids.max", cgroup.Read("pids.current"));
  const auto ask = [&] {
    for (int call = 0; call < 40; ++call) {
      const auto status = daemon_->Status();
      EXPECT_TRUE(status.ok()) << call << ": " << status.status();
    }
    for (int call = 0; call < 10; ++call) {
      const auto answer = daemon_->FetchProcess(target_->pid());
      EXPECT_TRUE(answer.ok()) << call << ": " << answer.status();
    }
  };
  ask();
  EXPECT_FALSE(daemon_->process().Wait(milliseconds(0)).has_value()) << Said();
  // Long enough for timers of the RPC library, which start threads.
  const auto end = std::chrono::steady_clock::now() + seconds(3);
  while (std::chrono::steady_clock::now() < end) {
    EXPECT_TRUE(daemon_->Status().ok());
    std::this_thread::sleep_for(milliseconds(50));
  }
  cgroup.Write("pids.max", "max");
  ask();
  // With a thread that was refused to it, the RPC library would never shut down.
  EXPECT_EQ(daemon_->Stop(), 0) << Said();
  EXPECT_FALSE(target_->process().Wait(milliseconds(0)).has_value()) << "the target ended";
}

}  // namespace
}  // namespace profd::e2e
