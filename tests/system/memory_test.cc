// The memory timeline where a scenario cannot say it: shares of PSS, a process that is killed, a
// pause, a cgroup of the test's own. Known arithmetic is in tests/scenarios/memory*.toml.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/base/clock.h"
#include "tests/system/harness/checks.h"
#include "tests/system/harness/daemon.h"
#include "tests/system/harness/heap.h"
#include "tests/system/harness/target.h"

namespace profd::e2e {
namespace {

using testing::HasSubstr;

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kBytes = 256 * kMiB;
// Of kBytes; the kernel keeps counts of pages by CPU and adds them up now and then.
constexpr double kTolerance = 0.01 * kBytes;

// A field of /proc/PID/status, bytes.
int64_t StatusBytes(int pid, const std::string& key) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key + ":")) return std::stoll(line.substr(key.size() + 1)) * 1024;
  }
  return -1;
}

class MemoryTest : public testing::Test {
 protected:
  void SetUp() override { SKIP_UNLESS_ROOT(); }

  void StartTarget(int64_t bytes = kBytes) {
    auto target = Target::Start({"memory", std::to_string(bytes / kMiB)});
    ASSERT_TRUE(target.ok()) << target.status();
    target_ = *std::move(target);
  }
  void StartDaemon(const std::vector<std::string>& arguments = {}) {
    auto daemon = Daemon::Start({.targets = {"^waiter$"}, .arguments = arguments});
    ASSERT_TRUE(daemon.ok()) << daemon.status();
    daemon_ = *std::move(daemon);
    ASSERT_TRUE(daemon_->AwaitTarget(target_->pid()).has_value());
  }
  // Lets the target go on, to where it says this.
  void GoTo(const std::string& where) {
    ASSERT_TRUE(target_->Go());
    ASSERT_TRUE(target_->process().LineWith(Stream::kStdout, where, seconds(30)).has_value());
  }
  nlohmann::json Ask(const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"memory", "--format", "json", "--target",
                                          std::to_string(target_->pid())};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const absl::StatusOr<Finished> run = Profctl(*daemon_, arguments);
    EXPECT_TRUE(run.ok()) << run.status();
    if (!run.ok()) return {};
    EXPECT_EQ(run->code, 0) << run->err;
    return nlohmann::json::parse(run->out, nullptr, false);
  }
  nlohmann::json Process(const std::vector<std::string>& more = {}) {
    nlohmann::json json = Ask(more);
    return json["processes"].empty() ? nlohmann::json() : json["processes"][0];
  }
  // The newest point once this figure of it is what it must be.
  nlohmann::json AwaitPoint(const std::string& figure, int64_t bytes) {
    nlohmann::json point;
    EXPECT_TRUE(Eventually(
        kPatience,
        [&] {
          const nlohmann::json process = Process();
          if (process.is_null()) return false;
          point = process["points"].back();
          return std::abs(static_cast<double>(point[figure].get<int64_t>() - bytes)) <= kTolerance;
        }))
        << figure << " is not " << bytes << ": " << point.dump();
    return point;
  }

  std::unique_ptr<Target> target_;
  std::unique_ptr<Daemon> daemon_;
};

// What two processes map counts half.
TEST_F(MemoryTest, SharedMemoryIsDividedInPss) {
  constexpr int64_t kSmall = 32 * kMiB;  // for PSS is read the more rarely the longer it takes
  ASSERT_NO_FATAL_FAILURE(StartTarget(kSmall));
  ASSERT_NO_FATAL_FAILURE(StartDaemon());
  ASSERT_NO_FATAL_FAILURE(GoTo("touched"));
  ASSERT_NO_FATAL_FAILURE(GoTo("dropped"));
  ASSERT_NO_FATAL_FAILURE(GoTo("shared"));
  const int64_t shmem = AwaitPoint("shmem_bytes", kSmall)["shmem_bytes"];
  const auto pss_less = [&](int64_t share) {
    nlohmann::json point;
    EXPECT_TRUE(Eventually(seconds(40), [&] {
      const nlohmann::json process = Process();
      if (process.is_null()) return false;
      point = process["points"].back();
      if (!point["pss_bytes"].is_number()) return false;
      // The rest is its program and libraries, some of which others map as well.
      const int64_t rest = point["rss_bytes"].get<int64_t>() - shmem;
      const int64_t pss = point["pss_bytes"].get<int64_t>();
      return pss >= share && pss <= share + rest;
    })) << point.dump();
  };
  pss_less(shmem);
  ASSERT_NO_FATAL_FAILURE(GoTo("halved"));
  pss_less(shmem / 2);
}

TEST_F(MemoryTest, AProcessThatEndedIsStillThere) {
  ASSERT_NO_FATAL_FAILURE(StartTarget());
  ASSERT_NO_FATAL_FAILURE(StartDaemon());
  ASSERT_NO_FATAL_FAILURE(GoTo("touched"));
  const nlohmann::json touched = AwaitPoint("anon_bytes", kBytes);
  target_->process().Signal(SIGKILL);
  ASSERT_TRUE(target_->process().Wait(seconds(60)).has_value());
  nlohmann::json process;
  EXPECT_TRUE(Eventually(kPatience, [&] {
    process = Process();
    return process.is_object() && process["ended"] == true;
  })) << process.dump();
  EXPECT_EQ(process["points"].back()["rss_bytes"], touched["rss_bytes"]);
}

TEST_F(MemoryTest, PausedItReadsNothing) {
  ASSERT_NO_FATAL_FAILURE(StartTarget());
  ASSERT_NO_FATAL_FAILURE(StartDaemon());
  AwaitPoint("rss_bytes", StatusBytes(target_->pid(), "VmRSS"));
  daemon_->process().Signal(SIGUSR1);
  ASSERT_TRUE(daemon_->process().LineWith(Stream::kStderr, "paused", seconds(60)).has_value());
  const nlohmann::json before = Process();
  const nlohmann::json paused = Ask();
  EXPECT_EQ(paused["processes"][0]["points"].size(), before["points"].size());
  EXPECT_EQ(paused["notes"].size(), 1U);
  daemon_->process().Signal(SIGUSR2);
  EXPECT_TRUE(Eventually(kPatience, [&] {
    const nlohmann::json now = Process();
    return now["points"].back()["time_ns"] > before["points"].back()["time_ns"];
  }));
}

// A cgroup with a limit of its own, for as long as this lives.
class LimitedCgroup {
 public:
  // Version 1 or 2, as the machine has it; empty version: why there is none.
  LimitedCgroup() {
    const std::string name = absl::StrCat("/profd-memory-test-", getpid());
    if (access("/sys/fs/cgroup/memory/memory.limit_in_bytes", F_OK) == 0) {
      Make(1, "/sys/fs/cgroup/memory" + name, "memory.limit_in_bytes");
    } else {
      std::ofstream("/sys/fs/cgroup/cgroup.subtree_control") << "+memory";
      Make(2, "/sys/fs/cgroup" + name, "memory.max");
    }
  }
  ~LimitedCgroup() {
    if (version_ != 0) rmdir(directory_.c_str());
  }
  int version() const { return version_; }
  const std::string& why_not() const { return why_not_; }
  bool Take(int pid) {
    return static_cast<bool>(std::ofstream(directory_ + "/cgroup.procs") << pid << std::flush);
  }

 private:
  void Make(int version, const std::string& directory, const std::string& limit) {
    directory_ = directory;
    if (mkdir(directory.c_str(), 0755) != 0) {
      why_not_ = absl::StrCat("cannot make ", directory);
      return;
    }
    std::ofstream file(directory + "/" + limit);
    if (!(file << 1024 * kMiB << std::flush)) {
      why_not_ = absl::StrCat("cannot write ", directory, "/", limit);
      rmdir(directory.c_str());
      return;
    }
    version_ = version;
  }
  int version_ = 0;
  std::string directory_, why_not_;
};

TEST_F(MemoryTest, TheCgroupAndItsLimit) {
  LimitedCgroup cgroup;
  if (cgroup.version() == 0) GTEST_SKIP() << cgroup.why_not();
  ASSERT_NO_FATAL_FAILURE(StartTarget());
  ASSERT_TRUE(cgroup.Take(target_->pid()));
  ASSERT_NO_FATAL_FAILURE(StartDaemon());
  ASSERT_NO_FATAL_FAILURE(GoTo("touched"));
  const nlohmann::json point = AwaitPoint("anon_bytes", kBytes);
  const nlohmann::json process = Process();
  EXPECT_EQ(process["cgroup"]["version"], cgroup.version());
  EXPECT_THAT(process["cgroup"]["path"].get<std::string>(), HasSubstr("profd-memory-test-"));
  EXPECT_EQ(point["cgroup_limit_bytes"], 1024 * kMiB);
  // What it touched since it is in it.
  EXPECT_NEAR(point["cgroup_current_bytes"].get<double>(), kBytes, 0.05 * kBytes);
  EXPECT_EQ(point["cgroup_oom_kills"], 0);
  EXPECT_EQ(point["cgroup_limit_hits"], 0);
  target_.reset();
}

}  // namespace
}  // namespace profd::e2e
