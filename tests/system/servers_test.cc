// Real servers under load: the account against the kernel's own, thread by thread; whole stacks;
// waits by name. No scenario: these programs do not measure themselves, so the truth is read from
// /proc around each window.
#include "tests/system/harness/servers.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "nlohmann/json.hpp"
#include "tests/support/machine.h"
#include "tests/system/harness/checks.h"
#include "tests/system/harness/daemon.h"
#include "tests/system/harness/schedstat.h"

namespace profd::e2e {
namespace {

// Both accounts are read from the kernel's books, at different instants: this is for rounding.
constexpr double kBooksTolerance = 0.001;
// schedstat of a running thread is as of its last scheduler tick, 10 ms ago at most.
constexpr int64_t kTickNs = 10'000'000;

// A window from `begin_ns` up to now of these processes alone (none: of all): the machine may run
// other servers of that name.
v1::FetchRequest Window(const std::vector<int>& pids, int64_t begin_ns) {
  v1::FetchRequest request;
  for (const int pid : pids) request.add_targets(std::to_string(pid));
  request.mutable_window()->set_begin_ns(begin_ns);
  return request;
}

testing::AssertionResult Between(int64_t low, int64_t value, int64_t high) {
  const auto slack = static_cast<int64_t>(kBooksTolerance * static_cast<double>(value));
  if (low - slack <= value && value <= high + slack) return testing::AssertionSuccess();
  return testing::AssertionFailure() << value << " ns is not between " << low << " and " << high;
}

// Every thread that lived through the window, in both accounts.
void ExpectAgreesWithKernel(const Edge& begin, const Edge& end, size_t at_least) {
  const Answer& answer = end.answer;
  EXPECT_TRUE(Near(answer.coverage().begin_ns(), begin.wall_ns, 0, kClockSlewNs));
  const int64_t length = end.wall_ns - begin.wall_ns;
  const int64_t stolen = end.stolen_after_ns - begin.stolen_before_ns;
  const bool exact = answer.coverage().switch_ns() == length;
  size_t compared = 0;
  for (const auto& [tid, last] : end.after) {
    const auto old = begin.before.find(tid);
    const auto first = begin.after.find(tid);
    const auto close = end.before.find(tid);
    if (old == begin.before.end() || first == begin.after.end() || close == end.before.end()) {
      continue;
    }
    const Thread* thread = answer.FindThread(tid);
    if (thread == nullptr) {
      ADD_FAILURE() << "thread " << tid << " is missing";
      continue;
    }
    SCOPED_TRACE(absl::StrCat(thread->process, "/", thread->name, " ", tid));
    ++compared;
    EXPECT_TRUE(Between(close->second.on_cpu_ns - first->second.on_cpu_ns - kTickNs,
                        thread->ledger.on_cpu_ns(),
                        last.on_cpu_ns - old->second.on_cpu_ns + kTickNs))
        << "on-CPU";
    EXPECT_TRUE(Between(close->second.runqueue_ns - first->second.runqueue_ns,
                        OffNs(*thread, v1::REASON_RUNQUEUE),
                        last.runqueue_ns - old->second.runqueue_ns + kTickNs + stolen))
        << "run queue; stolen " << stolen;
    EXPECT_TRUE(Near(thread->ledger.wall_ns(), length, kIdentityTolerance)) << "wall";
    if (!exact) continue;
    // Each switch away from a CPU is the beginning of one wait. A few may lie across an edge.
    int64_t begun = 0;
    for (const v1::ReasonTotal& total : thread->ledger.off()) {
      begun += static_cast<int64_t>(total.waits());
    }
    const auto switches = static_cast<int64_t>(thread->ledger.voluntary_switches() +
                                               thread->ledger.involuntary_switches());
    EXPECT_NEAR(static_cast<double>(begun), static_cast<double>(switches), 2) << "waits";
  }
  for (const Thread& thread : answer.threads) EXPECT_TRUE(AddsUp(thread));
  EXPECT_GE(compared, at_least);
}

// A walk during which the thread ran is thrown away and shown as such: it gave no stack. One that
// met the process while it changed its mappings ends there.
const std::vector<std::string> kRaces = {"[torn walk]", "[memory map busy]"};

// `excused`: ends of stacks that say nothing against the unwinder.
void ExpectWholeStacks(const Answer& answer, const std::vector<std::string>& excused = kRaces) {
  EXPECT_GT(answer.type().count(), 0U);
  int64_t complete = 0, out = 0, all = 0;
  std::string broken;
  for (const Sample& sample : answer.samples) {
    if (sample.stack == 0) continue;
    all += sample.weight;
    const std::string stack = answer.Describe(sample);
    if (answer.IsComplete(sample)) {
      complete += sample.weight;
    } else if (std::any_of(excused.begin(), excused.end(),
                           [&](const std::string& end) { return absl::StrContains(stack, end); })) {
      out += sample.weight;
    } else {
      absl::StrAppend(&broken, sample.weight, " ns: ", stack, "\n");
    }
  }
  EXPECT_GE(static_cast<double>(complete), 0.99 * static_cast<double>(all - out)) << broken;
  // How many race depends on the machine; that most do not is what makes a profile.
  EXPECT_LE(static_cast<double>(out), 0.6 * static_cast<double>(all));
  ExpectNoLoss(answer);
  ASSERT_GT(all, 0);
  // What is said to be complete agrees with the share that is stated.
  EXPECT_NEAR(static_cast<double>(complete) / static_cast<double>(all),
              answer.type().complete_share(), 0.001);
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
  // However narrow: some samples of a short run may be all that a frame has.
  const auto drawn = Profctl(daemon, {"fetch", "--since", "60s", "--target", target, "--idle",
                                      "--min-width", "0.0001", "-o", svg});
  ASSERT_TRUE(drawn.ok()) << drawn.status();
  ASSERT_EQ(drawn->code, 0) << drawn->err;
  std::ifstream file(svg);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  for (const std::string& name : names) {
    EXPECT_TRUE(absl::StrContains(folded->out, name)) << name;
    EXPECT_TRUE(absl::StrContains(text, name)) << name;
  }
}

// What the threads of a process that still live ran so far.
int64_t CpuNs(int pid) {
  int64_t sum = 0;
  for (const auto& [tid, times] : ReadSchedstat({pid})) sum += times.on_cpu_ns;
  return sum;
}

std::string Said(const Daemon& daemon) {
  return const_cast<Daemon&>(daemon).process().Output(Subprocess::Stream::kStderr);
}

class ServersTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override { REQUIRE_FACT("root"); }
  absl::StatusOr<std::unique_ptr<Daemon>> Watch(const std::string& target) {
    return Daemon::Start({.targets = {target}, .budgets = GetParam()});
  }
};

// `tests/run` has them as shipped, `tests/run --all` with budgets off, too.
INSTANTIATE_TEST_SUITE_P(, ServersTest, testing::Values(true, false),
                         [](const auto& test) { return test.param ? "AsShipped" : "BudgetsOff"; });

TEST_P(ServersTest, Postgres) {
  absl::StatusOr<std::unique_ptr<Postgres>> postgres = Postgres::Start();
  ASSERT_TRUE(postgres.ok()) << postgres.status();
  ASSERT_TRUE((*postgres)->Fill().ok());
  absl::StatusOr<std::unique_ptr<Daemon>> daemon = Watch("^postgres$");
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  ASSERT_TRUE((*daemon)->AwaitTarget((*postgres)->pid()).has_value()) << Said(**daemon);

  const int64_t started = WallNs();
  absl::StatusOr<std::unique_ptr<Subprocess>> bench = (*postgres)->Bench();
  ASSERT_TRUE(bench.ok()) << bench.status();
  // The backends of 8 clients, the postmaster and three helpers at least. One was seen to wait.
  constexpr int kProcesses = 8 + 4;
  ASSERT_TRUE(Eventually(kPatience, [&] {
    const auto answer = (*daemon)->Fetch(Window(WithChildren((*postgres)->pid()), started));
    return answer.ok() && answer->message.processes_size() >= kProcesses &&
           answer->type().count() > 0;
  })) << Said(**daemon);

  const std::vector<int> pids = WithChildren((*postgres)->pid());
  absl::StatusOr<Edge> begin = MakeEdge(**daemon, Window(pids, WallNs()), pids);
  ASSERT_TRUE(begin.ok()) << begin.status();
  std::this_thread::sleep_for(seconds(3));  // the length of the experiment
  absl::StatusOr<Edge> end = MakeEdge(**daemon, Window(pids, begin->wall_ns), pids);
  ASSERT_TRUE(end.ok()) << end.status();
  ExpectAgreesWithKernel(*begin, *end, kProcesses);
  ExpectWholeStacks(end->answer);
  ExpectNamed(
      **daemon, "^postgres$",
      {"WaitEventSetWait", "epoll_wait", "PostgresMain", "PostmasterMain", "[poll]", "[runqueue]"});
  EXPECT_FALSE((*bench)->Wait(seconds(0)).has_value()) << "the load ended before the window";
  EXPECT_EQ((*daemon)->Stop(), 0) << Said(**daemon);
}

TEST_P(ServersTest, Redis) {
  absl::StatusOr<std::unique_ptr<Redis>> redis = Redis::Start();
  ASSERT_TRUE(redis.ok()) << redis.status();
  absl::StatusOr<std::unique_ptr<Daemon>> daemon = Watch("redis-server");
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  ASSERT_TRUE((*daemon)->AwaitTarget((*redis)->pid()).has_value()) << Said(**daemon);
  absl::StatusOr<std::unique_ptr<Subprocess>> bench = (*redis)->Bench();
  ASSERT_TRUE(bench.ok()) << bench.status();

  const std::vector<int> pids = {(*redis)->pid()};
  absl::StatusOr<Edge> begin = MakeEdge(**daemon, Window(pids, WallNs()), pids);
  ASSERT_TRUE(begin.ok()) << begin.status();
  std::this_thread::sleep_for(seconds(3));  // the length of the experiment
  absl::StatusOr<Edge> end = MakeEdge(**daemon, Window(pids, begin->wall_ns), pids);
  ASSERT_TRUE(end.ok()) << end.status();
  ExpectAgreesWithKernel(*begin, *end, 4);
  ExpectWholeStacks(end->answer);
  ExpectNamed(**daemon, "redis-server",
              {"aeMain", "epoll_wait", "bioProcessBackgroundJobs", "[lock]"});
  EXPECT_EQ((*daemon)->Stop(), 0) << Said(**daemon);
}

TEST_P(ServersTest, RustCompiler) {
  const std::string rustc = FindProgram("rustc");
  ASSERT_FALSE(rustc.empty()) << "no rustc";
  TemporaryDirectory directory;
  const auto root = RunToEnd({{rustc, "--print", "sysroot"}}, seconds(60));
  ASSERT_TRUE(root.ok() && root->code == 0) << "rustc does not run";
  // Not through the launcher of a toolchain manager: that one is another process first.
  const std::string toolchain = root->out.substr(0, root->out.find('\n'));
  // By a name of its own: other compilers may run here, and start linkers.
  const std::string name = absl::StrCat("rustc-", getpid());
  const std::string compiler = absl::StrCat(directory.path(), "/", name);
  std::error_code error;
  std::filesystem::create_symlink(toolchain + "/bin/rustc", compiler, error);
  ASSERT_FALSE(error) << error.message();
  std::ofstream(directory.path() + "/load.rs") << RustProgram(36);

  absl::StatusOr<std::unique_ptr<Daemon>> daemon = Watch(absl::StrCat("^", name, "$"));
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  Command compile{{compiler, "--sysroot", toolchain, "-O", "--edition", "2021", "-C",
                   "codegen-units=8", "load.rs"}};
  compile.directory = directory.path();
  const int64_t started = WallNs();
  absl::StatusOr<std::unique_ptr<Subprocess>> process = Subprocess::Start(compile);
  ASSERT_TRUE(process.ok()) << process.status();
  const int pid = (*process)->pid();
  ASSERT_TRUE((*daemon)->AwaitTarget(pid).has_value()) << Said(**daemon);

  const int64_t before_attached = CpuNs(pid);

  absl::StatusOr<Edge> begin = MakeEdge(**daemon, Window({pid}, WallNs()), {pid});
  ASSERT_TRUE(begin.ok()) << begin.status();
  std::this_thread::sleep_for(seconds(3));  // the length of the experiment
  absl::StatusOr<Edge> end = MakeEdge(**daemon, Window({pid}, begin->wall_ns), {pid});
  ASSERT_TRUE(end.ok()) << end.status();
  ExpectAgreesWithKernel(*begin, *end, 2);
  // The rules of LLVM are read when its threads begin.
  std::vector<std::string> excused = kRaces;
  excused.push_back("[unwind rules pending]");
  ExpectWholeStacks(end->answer, excused);

  ASSERT_EQ((*process)->Wait(seconds(600)), 0) << (*process)->Output(Subprocess::Stream::kStderr);
  // The whole life: every thread that came and went, against what the kernel charged the process
  // and the linker it ran.
  const auto life = (*daemon)->Fetch(Window({}, started));
  ASSERT_TRUE(life.ok()) << life.status();
  int64_t on_cpu = 0;
  for (const Thread& thread : life->threads) on_cpu += thread.ledger.on_cpu_ns();
  // What it ran before profd found it may be missing.
  const int64_t charged = (*process)->cpu_ns();
  EXPECT_TRUE(Between(charged - before_attached - kTickNs, on_cpu, charged + kTickNs));
  ExpectNamed(**daemon, name, {"main", "join", "[lock]", "[runqueue]"});
  EXPECT_EQ((*daemon)->Stop(), 0) << Said(**daemon);
}

// The same, where PIDs are other numbers than the kernel's: all of it in a PID namespace.
TEST_P(ServersTest, PostgresInAPidNamespace) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const TemporaryDirectory directory;
  const std::string report = directory.path() + "/report.json";
  const std::string test =
      absl::StrCat("ServersTest.Postgres/", GetParam() ? "AsShipped" : "BudgetsOff");
  const auto inside = RunToEnd(
      {{"unshare", "--pid", "--fork", "--mount-proc", "--kill-child", self,
        absl::StrCat("--gtest_filter=", test), absl::StrCat("--gtest_output=json:", report)}},
      seconds(300));
  ASSERT_TRUE(inside.ok()) << inside.status();
  EXPECT_EQ(inside->code, 0) << inside->out << inside->err;
  std::ifstream file(report);
  const auto ran = nlohmann::json::parse(file, nullptr, false);
  ASSERT_TRUE(ran.is_object()) << inside->out;
  EXPECT_EQ(ran["tests"], 1) << inside->out;
  EXPECT_EQ(ran["testsuites"][0]["testsuite"][0]["result"], "COMPLETED") << "it was skipped";
}

}  // namespace
}  // namespace profd::e2e
