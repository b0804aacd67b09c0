// Real servers under load: the account against the kernel's own, thread by thread; whole stacks;
// waits by name.
#include "tests/system/harness/servers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "tests/system/harness/checks.h"
#include "tests/system/harness/daemon.h"
#include "tests/system/harness/schedstat.h"

namespace profd::e2e {
namespace {

constexpr double kSchedstatTolerance = 0.02;
// schedstat of a running thread is as of its last scheduler tick (4 ms here), and a thread in the
// run queue is charged only once it arrives: that much may be off at each edge.
constexpr int64_t kOnCpuFloorNs = 8'000'000;
constexpr int64_t kRunQueueFloorNs = 10'000'000;

// A window from `begin_ns` up to now of these processes alone (none: of all): the machine may run
// other servers of that name.
v1::FetchRequest Window(const std::vector<int>& pids, int64_t begin_ns) {
  v1::FetchRequest request;
  for (const int pid : pids) request.add_targets(std::to_string(pid));
  request.set_begin_ns(begin_ns);
  return request;
}

// Every thread that lived through the window, in both accounts.
void ExpectAgreesWithKernel(const Edge& begin, const Edge& end, size_t at_least) {
  const Answer& answer = end.answer;
  EXPECT_TRUE(Near(answer.header.begin_ns(), begin.wall_ns, 0, kClockSlewNs));
  const int64_t length = end.wall_ns - begin.wall_ns;
  const int64_t stolen = end.stolen_ns - begin.stolen_ns;
  size_t compared = 0;
  int64_t on_cpu = 0, kernel_on_cpu = 0, runqueue = 0, kernel_runqueue = 0;
  for (const auto& [tid, last] : end.threads) {
    const auto first = begin.threads.find(tid);
    if (first == begin.threads.end()) continue;
    const v1::Thread* thread = answer.FindThread(tid);
    if (thread == nullptr) {
      ADD_FAILURE() << "thread " << tid << " is missing";
      continue;
    }
    SCOPED_TRACE(absl::StrCat(thread->process(), "/", thread->name(), " ", tid));
    ++compared;
    const int64_t cpu = last.on_cpu_ns - first->second.on_cpu_ns;
    const int64_t queue = last.runqueue_ns - first->second.runqueue_ns;
    EXPECT_TRUE(Near(thread->on_cpu_ns(), cpu, kSchedstatTolerance, kOnCpuFloorNs)) << "on-CPU";
    EXPECT_TRUE(Near(OffNs(*thread, v1::REASON_RUNQUEUE), queue, kSchedstatTolerance,
                     kRunQueueFloorNs + stolen))
        << "run queue";
    EXPECT_TRUE(Near(thread->wall_ns(), length, kIdentityTolerance)) << "wall";
    // Each switch away from a CPU is the beginning of one wait. A few may lie across an edge.
    int64_t begun = 0;
    for (const v1::ReasonTotal& total : thread->off()) {
      begun += static_cast<int64_t>(total.waits());
    }
    const auto switches =
        static_cast<int64_t>(thread->voluntary_switches() + thread->involuntary_switches());
    EXPECT_NEAR(static_cast<double>(begun), static_cast<double>(switches), 2) << "waits";
    on_cpu += thread->on_cpu_ns();
    kernel_on_cpu += cpu;
    runqueue += OffNs(*thread, v1::REASON_RUNQUEUE);
    kernel_runqueue += queue;
  }
  for (const auto& [id, thread] : answer.threads) EXPECT_TRUE(AddsUp(thread));
  EXPECT_GE(compared, at_least);
  EXPECT_TRUE(Near(on_cpu, kernel_on_cpu, kSchedstatTolerance, kOnCpuFloorNs)) << "sum";
  EXPECT_TRUE(Near(runqueue, kernel_runqueue, kSchedstatTolerance, kRunQueueFloorNs + stolen))
      << "sum; stolen " << stolen;
  std::printf(
      "%zu threads over %.2f s: on-CPU %.4f, run queue %.4f of the kernel's account\n", compared,
      static_cast<double>(length) * 1e-9,
      static_cast<double>(on_cpu) / static_cast<double>(std::max<int64_t>(kernel_on_cpu, 1)),
      static_cast<double>(runqueue) / static_cast<double>(std::max<int64_t>(kernel_runqueue, 1)));
}

void ExpectWholeStacks(const Answer& answer) {
  const v1::Trailer& trailer = answer.trailer;
  std::printf("%llu ticks, %llu samples, %llu walks, %llu torn, complete %.4f\n",
              static_cast<unsigned long long>(trailer.ticks()),
              static_cast<unsigned long long>(trailer.samples()),
              static_cast<unsigned long long>(trailer.walks()),
              static_cast<unsigned long long>(trailer.torn_walks()), trailer.complete_share());
  EXPECT_GT(trailer.samples(), 100U);
  // A walk during which the thread ran is thrown away and shown as such: it gave no stack. One that
  // met the process while it changed its mappings ends there.
  int64_t complete = 0, torn = 0, busy = 0, all = 0;
  for (const v1::Sample& sample : answer.samples) {
    if (sample.stack() == 0) continue;
    all += sample.weight_ns();
    if (answer.IsComplete(sample)) {
      complete += sample.weight_ns();
    } else if (answer.Describe(sample).find("[torn walk]") != std::string::npos) {
      torn += sample.weight_ns();
    } else if (answer.Describe(sample).find("[memory map busy]") != std::string::npos) {
      busy += sample.weight_ns();
    }
  }
  EXPECT_GE(static_cast<double>(complete), 0.99 * static_cast<double>(all - torn - busy));
  EXPECT_LE(static_cast<double>(torn), 0.05 * static_cast<double>(all));
  EXPECT_LE(static_cast<double>(busy), 0.03 * static_cast<double>(all));
  if (trailer.complete_share() < 0.99) {
    std::map<std::string, int64_t> incomplete;
    for (const v1::Sample& sample : answer.samples) {
      if (sample.stack() != 0 && !answer.IsComplete(sample)) {
        incomplete[answer.Describe(sample)] += sample.weight_ns();
      }
    }
    std::vector<std::pair<int64_t, std::string>> widest;
    for (const auto& [stack, weight] : incomplete) widest.emplace_back(weight, stack);
    std::sort(widest.rbegin(), widest.rend());
    for (size_t i = 0; i < std::min<size_t>(widest.size(), 5); ++i) {
      std::printf("  %.1f ms: %s\n", static_cast<double>(widest[i].first) * 1e-6,
                  widest[i].second.c_str());
    }
  }
  ExpectNoLoss(answer);
  // What is said to be complete agrees with the share that is stated.
  EXPECT_NEAR(static_cast<double>(complete) / static_cast<double>(all), trailer.complete_share(),
              0.001);
}

// What a user gets: folded stacks on stdout and the flame graph in a file name the wait.
void ExpectNamed(const Daemon& daemon, const std::string& target,
                 const std::vector<std::string>& names) {
  TemporaryDirectory directory;
  const std::string svg = directory.path() + "/flame.svg";
  const auto folded = Profctl(
      daemon, {"fetch", "--since", "60s", "--target", target, "--idle", "--format", "folded"});
  ASSERT_TRUE(folded.ok()) << folded.status();
  ASSERT_EQ(folded->code, 0) << folded->err;
  const auto drawn =
      Profctl(daemon, {"fetch", "--since", "60s", "--target", target, "--idle", "-o", svg});
  ASSERT_TRUE(drawn.ok()) << drawn.status();
  ASSERT_EQ(drawn->code, 0) << drawn->err;
  std::ifstream file(svg);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  for (const std::string& name : names) {
    EXPECT_TRUE(absl::StrContains(folded->out, name)) << name;
    EXPECT_TRUE(absl::StrContains(text, name)) << name;
  }
}

std::string Said(const Daemon& daemon) {
  return const_cast<Daemon&>(daemon).process().Output(Subprocess::Stream::kStderr);
}

TEST(ServersTest, Postgres) {
  SKIP_UNLESS_ROOT();
  absl::StatusOr<std::unique_ptr<Postgres>> postgres = Postgres::Start();
  if (absl::IsNotFound(postgres.status())) GTEST_SKIP() << postgres.status().message();
  ASSERT_TRUE(postgres.ok()) << postgres.status();
  ASSERT_TRUE((*postgres)->Fill().ok());
  absl::StatusOr<std::unique_ptr<Daemon>> daemon = Daemon::Start({.targets = {"^postgres$"}});
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  ASSERT_TRUE((*daemon)->AwaitTarget((*postgres)->pid()).has_value()) << Said(**daemon);

  const int64_t started = WallNs();
  absl::StatusOr<std::unique_ptr<Subprocess>> bench = (*postgres)->Bench(seconds(12));
  ASSERT_TRUE(bench.ok()) << bench.status();
  // All backends are there, and one of them was seen to wait for its client.
  ASSERT_TRUE(Eventually(seconds(20), [&] {
    const auto answer = (*daemon)->Fetch(Window(WithChildren((*postgres)->pid()), started));
    return answer.ok() && answer->header.process_count() >= 8 + 1 &&
           answer->trailer.samples() > 100 && answer->header.tick_ns() > 1'000'000'000;
  })) << Said(**daemon);

  const std::vector<int> pids = WithChildren((*postgres)->pid());
  absl::StatusOr<Edge> begin = MakeEdge(**daemon, Window(pids, WallNs()), pids);
  ASSERT_TRUE(begin.ok()) << begin.status();
  std::this_thread::sleep_for(seconds(6));  // the length of the experiment
  absl::StatusOr<Edge> end = MakeEdge(**daemon, Window(pids, begin->wall_ns), pids);
  ASSERT_TRUE(end.ok()) << end.status();
  ExpectAgreesWithKernel(*begin, *end, 8 + 4);
  ExpectWholeStacks(end->answer);
  ExpectNamed(
      **daemon, "^postgres$",
      {"WaitEventSetWait", "epoll_wait", "PostgresMain", "PostmasterMain", "[poll]", "[runqueue]"});
  ASSERT_EQ((*bench)->Wait(seconds(30)), 0) << (*bench)->Output(Subprocess::Stream::kStderr);
  EXPECT_EQ((*daemon)->Stop(), 0) << Said(**daemon);
}

TEST(ServersTest, Redis) {
  SKIP_UNLESS_ROOT();
  absl::StatusOr<std::unique_ptr<Redis>> redis = Redis::Start();
  if (absl::IsNotFound(redis.status())) GTEST_SKIP() << redis.status().message();
  ASSERT_TRUE(redis.ok()) << redis.status();
  absl::StatusOr<std::unique_ptr<Daemon>> daemon = Daemon::Start({.targets = {"redis-server"}});
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  ASSERT_TRUE((*daemon)->AwaitTarget((*redis)->pid()).has_value()) << Said(**daemon);
  absl::StatusOr<std::unique_ptr<Subprocess>> bench = (*redis)->Bench();
  ASSERT_TRUE(bench.ok()) << bench.status();

  const std::vector<int> pids = {(*redis)->pid()};
  absl::StatusOr<Edge> begin = MakeEdge(**daemon, Window(pids, WallNs()), pids);
  ASSERT_TRUE(begin.ok()) << begin.status();
  std::this_thread::sleep_for(seconds(5));  // the length of the experiment
  absl::StatusOr<Edge> end = MakeEdge(**daemon, Window(pids, begin->wall_ns), pids);
  ASSERT_TRUE(end.ok()) << end.status();
  ExpectAgreesWithKernel(*begin, *end, 4);
  ExpectWholeStacks(end->answer);
  ExpectNamed(**daemon, "redis-server",
              {"aeMain", "epoll_wait", "bioProcessBackgroundJobs", "[lock]"});
  EXPECT_EQ((*daemon)->Stop(), 0) << Said(**daemon);
}

TEST(ServersTest, RustCompiler) {
  SKIP_UNLESS_ROOT();
  const std::string rustc = FindProgram("rustc");
  if (rustc.empty()) GTEST_SKIP() << "no rustc";
  TemporaryDirectory directory;
  const auto root = RunToEnd({{rustc, "--print", "sysroot"}}, seconds(60));
  if (!root.ok() || root->code != 0) GTEST_SKIP() << "rustc does not run";
  // Not through the launcher of a toolchain manager: that one is another process first.
  const std::string compiler =
      absl::StrCat(root->out.substr(0, root->out.find('\n')), "/bin/rustc");
  std::ofstream(directory.path() + "/load.rs") << RustProgram(48);

  absl::StatusOr<std::unique_ptr<Daemon>> daemon = Daemon::Start({.targets = {"^rustc$"}});
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  Command compile{{compiler, "-O", "--edition", "2021", "-C", "codegen-units=8", "load.rs"}};
  compile.directory = directory.path();
  const int64_t started = WallNs();
  absl::StatusOr<std::unique_ptr<Subprocess>> process = Subprocess::Start(compile);
  ASSERT_TRUE(process.ok()) << process.status();
  const int pid = (*process)->pid();
  ASSERT_TRUE((*daemon)->AwaitTarget(pid).has_value()) << Said(**daemon);

  absl::StatusOr<Edge> begin = MakeEdge(**daemon, Window({pid}, WallNs()), {pid});
  ASSERT_TRUE(begin.ok()) << begin.status();
  std::this_thread::sleep_for(seconds(4));  // the length of the experiment
  absl::StatusOr<Edge> end = MakeEdge(**daemon, Window({pid}, begin->wall_ns), {pid});
  ASSERT_TRUE(end.ok()) << end.status();
  ExpectAgreesWithKernel(*begin, *end, 2);
  ExpectWholeStacks(end->answer);

  ASSERT_EQ((*process)->Wait(seconds(120)), 0) << (*process)->Output(Subprocess::Stream::kStderr);
  // The whole life: every thread that came and went, against what the kernel charged the process
  // and the linker it ran.
  const auto life = (*daemon)->Fetch(Window({}, started));
  ASSERT_TRUE(life.ok()) << life.status();
  int64_t on_cpu = 0;
  for (const auto& [id, thread] : life->threads) on_cpu += thread.on_cpu_ns();
  EXPECT_TRUE(Near(on_cpu, (*process)->cpu_ns(), kSchedstatTolerance, 20'000'000));
  std::printf("whole life: %zu threads, %.4f of the CPU time the kernel charged\n",
              life->threads.size(),
              static_cast<double>(on_cpu) / static_cast<double>((*process)->cpu_ns()));
  ExpectNamed(**daemon, "^rustc$", {"main", "join", "[lock]", "[runqueue]"});
  EXPECT_EQ((*daemon)->Stop(), 0) << Said(**daemon);
}

// The same, where PIDs are other numbers than the kernel's: all of it in a PID namespace.
TEST(ServersTest, PostgresInAPidNamespace) {
  SKIP_UNLESS_ROOT();
  if (FindProgram("unshare").empty()) GTEST_SKIP() << "no unshare";
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const auto inside = RunToEnd({{"unshare", "--pid", "--fork", "--mount-proc", "--kill-child", self,
                                 "--gtest_filter=ServersTest.Postgres"}},
                               seconds(150));
  ASSERT_TRUE(inside.ok()) << inside.status();
  EXPECT_EQ(inside->code, 0) << inside->out << inside->err;
  if (absl::StrContains(inside->out, "[  SKIPPED ]")) GTEST_SKIP() << inside->out;
  std::printf("%s", inside->out.c_str());
}

}  // namespace
}  // namespace profd::e2e
