// The memory timeline, on a program with known arithmetic.
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

using Stream = Subprocess::Stream;
using testing::HasSubstr;
using testing::Not;

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kBytes = 256 * kMiB;
// Of kBytes; the kernel keeps counts of pages by CPU and adds them up now and then.
constexpr double kTolerance = 0.01 * kBytes;
// How long to wait for a figure: rounds come every 5 s, a question makes one a second.
constexpr seconds kPatience(15);

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

TEST_F(MemoryTest, FollowsWhatAProgramTakesAndGivesBack) {
  ASSERT_NO_FATAL_FAILURE(StartTarget());
  ASSERT_NO_FATAL_FAILURE(StartDaemon());
  const int pid = target_->pid();
  const int64_t before = StatusBytes(pid, "VmRSS");
  const nlohmann::json first = AwaitPoint("rss_bytes", before);

  ASSERT_NO_FATAL_FAILURE(GoTo("touched"));
  const nlohmann::json touched = AwaitPoint("rss_bytes", before + kBytes);
  // It waits: both readings are of the same state.
  for (const auto& [figure, key] :
       {std::pair{"rss_bytes", "VmRSS"}, std::pair{"anon_bytes", "RssAnon"},
        std::pair{"file_bytes", "RssFile"}, std::pair{"shmem_bytes", "RssShmem"},
        std::pair{"swap_bytes", "VmSwap"}, std::pair{"page_table_bytes", "VmPTE"}}) {
    EXPECT_NEAR(touched[figure].get<double>(), static_cast<double>(StatusBytes(pid, key)),
                0.01 * static_cast<double>(StatusBytes(pid, key)) + 512 * 1024)
        << figure;
  }
  EXPECT_EQ(touched["threads"], 1);
  EXPECT_NEAR(static_cast<double>(touched["anon_bytes"].get<int64_t>() -
                                  first["anon_bytes"].get<int64_t>()),
              kBytes, kTolerance);

  ASSERT_NO_FATAL_FAILURE(GoTo("dropped"));
  const nlohmann::json dropped = AwaitPoint("rss_bytes", before);
  ASSERT_NO_FATAL_FAILURE(GoTo("shared"));
  const nlohmann::json shared = AwaitPoint("shmem_bytes", kBytes);
  EXPECT_NEAR(shared["anon_bytes"].get<double>(), dropped["anon_bytes"].get<double>(), kTolerance);
  EXPECT_GE(shared["minor_faults"].get<int64_t>(), touched["minor_faults"].get<int64_t>());

  // All of it stands in the timeline, in order, and was watched as it was.
  const nlohmann::json process = Process();
  EXPECT_EQ(process["name"], "waiter");
  EXPECT_EQ(process["ended"], false);
  EXPECT_NEAR(process["peak_rss_bytes"].get<double>(), static_cast<double>(before + kBytes),
              2 * kTolerance);
  EXPECT_NEAR(process["started_ns"].get<double>(), static_cast<double>(target_->started_wall_ns()),
              2e9);
  int64_t last = 0;
  bool up = false, down = false;
  for (const nlohmann::json& point : process["points"]) {
    EXPECT_GT(point["time_ns"].get<int64_t>(), last);
    last = point["time_ns"].get<int64_t>();
    const auto anon = point["anon_bytes"].get<int64_t>() - first["anon_bytes"].get<int64_t>();
    up = up || anon > kBytes - static_cast<int64_t>(kTolerance);
    down = down || (up && anon < static_cast<int64_t>(kTolerance));
    EXPECT_EQ(point["rss_bytes"].get<int64_t>(), point["anon_bytes"].get<int64_t>() +
                                                     point["file_bytes"].get<int64_t>() +
                                                     point["shmem_bytes"].get<int64_t>());
  }
  EXPECT_TRUE(up);
  EXPECT_TRUE(down);
  EXPECT_LT(WallNs() - last, int64_t{10'000'000'000});
  // Read more rarely, and of one process alone nearly as often as the rest.
  EXPECT_TRUE(process["points"].back()["pss_bytes"].is_number()) << process["note"];
  EXPECT_EQ(process["note"], "");

  const auto status = daemon_->Status();
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_GT(status->cost().memory_cpu_ns(), 0);
  EXPECT_LT(status->cost().memory_cpu_ns(), status->cost().daemon_cpu_ns());
  EXPECT_GT(status->memory().timeline_bytes(), 0U);
}

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

TEST_F(MemoryTest, FaultsAreCountedEveryFiveSeconds) {
  ASSERT_NO_FATAL_FAILURE(StartTarget());
  ASSERT_NO_FATAL_FAILURE(StartDaemon());
  ASSERT_NO_FATAL_FAILURE(GoTo("touched"));
  std::this_thread::sleep_for(seconds(21));  // a question would make a point of its own
  const nlohmann::json process = Process();
  ASSERT_FALSE(process.is_null());
  const nlohmann::json& points = process["points"];
  ASSERT_GE(points.size(), 5U);
  // The first comes with the daemon, the last with the question.
  for (size_t i = 1; i + 2 < points.size(); ++i) {
    EXPECT_NEAR(points[i + 1]["time_ns"].get<double>() - points[i]["time_ns"].get<double>(), 5e9,
                5e8);
  }
  std::ifstream file(absl::StrCat("/proc/", target_->pid(), "/stat"));
  std::string stat;
  std::getline(file, stat);
  // Behind the name: state is field 3, page faults without and with a read are 10 and 12.
  const std::vector<std::string> fields =
      absl::StrSplit(stat.substr(stat.rfind(')') + 2), ' ', absl::SkipEmpty());
  ASSERT_GT(fields.size(), 9U);
  EXPECT_EQ(std::to_string(points.back()["minor_faults"].get<int64_t>()), fields[7]);
  EXPECT_EQ(std::to_string(points.back()["major_faults"].get<int64_t>()), fields[9]);
  EXPECT_GT(points.back()["minor_faults"], 0);
}

TEST_F(MemoryTest, AProcessThatEndedIsStillThere) {
  ASSERT_NO_FATAL_FAILURE(StartTarget());
  ASSERT_NO_FATAL_FAILURE(StartDaemon());
  ASSERT_NO_FATAL_FAILURE(GoTo("touched"));
  const nlohmann::json touched = AwaitPoint("anon_bytes", kBytes);
  target_->process().Signal(SIGKILL);
  ASSERT_TRUE(target_->process().Wait(seconds(10)).has_value());
  nlohmann::json process;
  EXPECT_TRUE(Eventually(kPatience, [&] {
    process = Process();
    return process.is_object() && process["ended"] == true;
  })) << process.dump();
  EXPECT_EQ(process["points"].back()["rss_bytes"], touched["rss_bytes"]);
}

TEST_F(MemoryTest, APageForPeopleAndALineInTheSummary) {
  ASSERT_NO_FATAL_FAILURE(StartTarget());
  // Without the layers that ask for it, processes are followed, too.
  ASSERT_NO_FATAL_FAILURE(StartDaemon({"--disable", "heap"}));
  ASSERT_NO_FATAL_FAILURE(GoTo("touched"));
  const nlohmann::json touched = AwaitPoint("anon_bytes", kBytes);
  const absl::StatusOr<Finished> page = Profctl(*daemon_, {"memory", "--since", "60s"});
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->code, 0) << page->err;
  EXPECT_THAT(page->out, HasSubstr(absl::StrCat("waiter (", target_->pid(), "), runs since")));
  for (const char* part : {"RSS 2", "anonymous 256 MiB", "page tables", "growth", "page faults"}) {
    EXPECT_THAT(page->out, HasSubstr(part));
  }
  EXPECT_THAT(page->out, Not(HasSubstr("allocated")));
  TemporaryDirectory directory;
  const absl::StatusOr<Finished> summary =
      Profctl(*daemon_, {"fetch", "--since", "60s"}, directory.path());
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_THAT(summary->out, HasSubstr("\n  memory  RSS 2"));
  EXPECT_THAT(summary->out, HasSubstr("anonymous 256 MiB"));

  const absl::StatusOr<Finished> nobody = Profctl(*daemon_, {"memory", "--target", "nobody"});
  ASSERT_TRUE(nobody.ok());
  EXPECT_EQ(nobody->code, 1);
  EXPECT_THAT(nobody->err, HasSubstr("no process matches \"nobody\""));
}

// What a program has of jemalloc, by jemalloc's own counters: of one that is watched from its
// begin, and of one that had allocated all before profd began.
class LiveBytesTest : public HeapTest, public testing::WithParamInterface<bool> {};

TEST_P(LiveBytesTest, AreWhatWasNotFreed) {
  constexpr int kThreads = 3;
  if (!IsBuilt("alloc_jemalloc_static")) GTEST_SKIP() << "not built";
  const bool from_begin = GetParam();
  if (from_begin) {
    ASSERT_NO_FATAL_FAILURE(StartDaemon("^alloc_jemalloc"));
  }
  auto target = Allocating::Start(
      AllocBinary("alloc_jemalloc_static"),
      {"n=20000", "size=4096", absl::StrCat("threads=", kThreads), "free=50", "by=next"});
  ASSERT_NE(target, nullptr);
  if (from_begin) AwaitWatched(target->pid());
  target->Go();
  ASSERT_TRUE(target->AwaitReady());
  if (!from_begin) {
    ASSERT_NO_FATAL_FAILURE(StartDaemon(std::to_string(target->pid())));
    AwaitWatched(target->pid());
  }
  target->Go();
  const nlohmann::json account = target->Account();
  ASSERT_TRUE(account.is_object());
  const double live = UsableBytes(account, "allocated") - UsableBytes(account, "freed");
  nlohmann::json process;
  EXPECT_TRUE(Eventually(kPatience,
                         [&] {
                           const auto run = Profctl(*daemon_, {"memory", "--format", "json"});
                           if (!run.ok() || run->code != 0) return false;
                           process = nlohmann::json::parse(run->out)["processes"].at(0);
                           return process["live_bytes"].is_number() &&
                                  std::abs(process["live_bytes"].get<double>() - live) <= kInterval;
                         }))
      << process.dump() << " instead of " << live;
  EXPECT_EQ(process["live_counted"], true);
  EXPECT_EQ(process["points"].back()["live_bytes"], process["live_bytes"]);
  EXPECT_TRUE(process["fragmentation_bytes"].is_null()) << "most of it is not resident";
  // By thread: each has freed what the one before it had allocated.
  std::map<int, nlohmann::json> threads;
  for (const nlohmann::json& thread : process["threads"]) threads[thread["tid"]] = thread;
  for (const nlohmann::json& self : account["threads"]) {
    const nlohmann::json& thread = threads[self["tid"].get<int>()];
    ASSERT_TRUE(thread.is_object()) << self.dump();
    const auto allocated = from_begin ? self["counted"]["allocated"].get<double>() : 0;
    const auto freed = self["counted"]["freed"].get<double>();
    EXPECT_NEAR(thread["allocated_bytes"].get<double>(), allocated, kInterval);
    EXPECT_NEAR(thread["freed_bytes"].get<double>(), freed, kInterval);
    EXPECT_NEAR(thread["net_bytes"].get<double>(), allocated - freed, kInterval);
  }
  const auto page = Profctl(*daemon_, {"memory"});
  ASSERT_TRUE(page.ok());
  EXPECT_THAT(page->out, HasSubstr("counted by the allocator"));
  EXPECT_THAT(page->out, HasSubstr("by the thread"));
  EXPECT_EQ(daemon_->Stop(), 0);
}

INSTANTIATE_TEST_SUITE_P(Jemalloc, LiveBytesTest, testing::Bool(), [](const auto& from_begin) {
  return from_begin.param ? "FromItsBegin" : "OfAProcessThatRan";
});

TEST_F(MemoryTest, PausedItReadsNothing) {
  ASSERT_NO_FATAL_FAILURE(StartTarget());
  ASSERT_NO_FATAL_FAILURE(StartDaemon());
  AwaitPoint("rss_bytes", StatusBytes(target_->pid(), "VmRSS"));
  daemon_->process().Signal(SIGUSR1);
  ASSERT_TRUE(daemon_->process().LineWith(Stream::kStderr, "paused", seconds(10)).has_value());
  const nlohmann::json before = Process();
  const nlohmann::json paused = Ask();
  EXPECT_EQ(paused["processes"][0]["points"].size(), before["points"].size());
  ASSERT_EQ(paused["notes"].size(), 1U);
  EXPECT_THAT(paused["notes"][0].get<std::string>(), HasSubstr("SIGUSR2"));
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
