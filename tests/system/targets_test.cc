// Programs with known arithmetic: account, reason, whole stack and shares of each.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "daemon/profile/estimator.h"
#include "tests/system/harness/checks.h"
#include "tests/system/harness/daemon.h"
#include "tests/system/harness/schedstat.h"
#include "tests/system/harness/target.h"

namespace profd::e2e {
namespace {

struct Outcome {
  std::unique_ptr<Target> target;
  Report report;
  Answer answer;
  int64_t begin_wall_ns = 0;  // of what is fetched: from when on stacks are whole
};

// One daemon for all of them, as in life: it finds each target by name when that starts.
class TargetsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (geteuid() != 0) return;
    absl::StatusOr<std::unique_ptr<Daemon>> daemon = Daemon::Start({.targets = {"^waiter$"}});
    ASSERT_TRUE(daemon.ok()) << daemon.status();
    daemon_ = daemon->release();
  }
  static void TearDownTestSuite() {
    if (daemon_ == nullptr) return;
    EXPECT_EQ(daemon_->Stop(), 0) << daemon_->process().Output(Subprocess::Stream::kStderr);
    delete daemon_;
    daemon_ = nullptr;
  }
  void SetUp() override {
    SKIP_UNLESS_ROOT();
    ASSERT_NE(daemon_, nullptr);
  }

  // Runs a scenario to its report and fetches its process's whole life so far.
  void Run(const std::vector<std::string>& scenario, Outcome* outcome) {
    absl::StatusOr<std::unique_ptr<Target>> target = Target::Start(scenario);
    ASSERT_TRUE(target.ok()) << target.status();
    outcome->target = *std::move(target);
    const std::optional<int64_t> attached = daemon_->AwaitTarget(outcome->target->pid());
    ASSERT_TRUE(attached.has_value()) << daemon_->process().Output(Subprocess::Stream::kStderr);
    outcome->begin_wall_ns = *attached;
    ASSERT_TRUE(outcome->target->Go());
    absl::StatusOr<Report> report = outcome->target->AwaitReport();
    ASSERT_TRUE(report.ok()) << report.status();
    outcome->report = *std::move(report);
    Fetch(outcome);
  }

  void Fetch(Outcome* outcome) {
    absl::StatusOr<Answer> answer =
        daemon_->FetchProcess(outcome->report.pid, outcome->begin_wall_ns);
    ASSERT_TRUE(answer.ok()) << answer.status();
    outcome->answer = *std::move(answer);
    for (const auto& [id, thread] : outcome->answer.threads) EXPECT_TRUE(AddsUp(thread));
    ExpectNoLoss(outcome->answer);
  }

  // The one thread of that name, in both accounts.
  void Find(const Outcome& outcome, const std::string& name, const SelfMeasured** self,
            const v1::Thread** thread) {
    const std::vector<const SelfMeasured*> named = outcome.report.Named(name);
    ASSERT_EQ(named.size(), 1U) << name;
    *self = named.front();
    *thread = outcome.answer.FindThread((*self)->tid);
    ASSERT_NE(*thread, nullptr) << name << " is missing";
  }

  // All of the above for a thread that does nothing but wait in one place for one reason.
  void ExpectOneWait(const Outcome& outcome, const std::string& name, v1::Reason reason,
                     const std::vector<ExpectedStack>& stacks, double raced = 0.02) {
    const SelfMeasured* self;
    const v1::Thread* thread;
    ASSERT_NO_FATAL_FAILURE(Find(outcome, name, &self, &thread));
    ExpectWholeLife(*thread, *self);
    ExpectWaits(*thread, *self, reason);
    ExpectOnlyStacks(outcome.answer, *thread, reason, stacks, raced);
  }

  static Daemon* daemon_;
};

Daemon* TargetsTest::daemon_ = nullptr;

const ExpectedStack kNaps{{"waiter::MeteredSleep", "naps::Inner", "naps::Outer", "naps::Thread"},
                          "clock_nanosleep"};

TEST_F(TargetsTest, LongNaps) {
  Outcome outcome;
  ASSERT_NO_FATAL_FAILURE(Run({"naps", "50000", "60"}, &outcome));
  ExpectOneWait(outcome, "napper", v1::REASON_SLEEP, {kNaps});

  // The thread that waited for the other one has main's root.
  const v1::Thread* leader = outcome.answer.FindThread(outcome.report.pid);
  ASSERT_NE(leader, nullptr);
  EXPECT_EQ(leader->process(), "waiter");
  const ExpectedStack join{{"waiter::Join", "waiter::Naps", "main", "_start"}, "", "_start"};
  EXPECT_GT(ShareOf(outcome.answer, *leader, v1::REASON_LOCK, join).share, 0.99);
  // Before that it waited for its line, and was seen whole there: AwaitTarget() waits for it.
  const ExpectedStack line{{"AwaitLine", "main", "_start"}, "read", "_start"};
  const absl::StatusOr<Answer> life =
      daemon_->FetchProcess(outcome.report.pid, outcome.target->started_wall_ns());
  ASSERT_TRUE(life.ok()) << life.status();
  leader = life->FindThread(outcome.report.pid);
  ASSERT_NE(leader, nullptr);
  EXPECT_GT(ShareOf(*life, *leader, v1::REASON_PIPE, line).share, 0);
}

TEST_F(TargetsTest, ShortNaps) {
  Outcome outcome;
  ASSERT_NO_FATAL_FAILURE(Run({"naps", "200", "10000"}, &outcome));
  // A walk takes some 5 us of the 250 us of such a wait, so more of them race with its end.
  ExpectOneWait(outcome, "napper", v1::REASON_SLEEP, {kNaps}, 0.10);
}

TEST_F(TargetsTest, Mutex) {
  Outcome outcome;
  ASSERT_NO_FATAL_FAILURE(Run({"mutex", "120"}, &outcome));
  const SelfMeasured* self;
  const v1::Thread* thread;
  ASSERT_NO_FATAL_FAILURE(Find(outcome, "mutex-waiter", &self, &thread));
  ExpectWholeLife(*thread, *self);
  EXPECT_TRUE(Near(OffNs(*thread, v1::REASON_LOCK) + OffNs(*thread, v1::REASON_RUNQUEUE),
                   self->WaitOffNs(), kLedgerTolerance));
  const ExpectedStack acquire{{"mutex::Acquire", "mutex::Waiter"}, "pthread_mutex_lock"};
  const ExpectedStack handover{{"mutex::Waiter"}, ""};
  ExpectOnlyStacks(outcome.answer, *thread, v1::REASON_LOCK, {acquire, handover});
  EXPECT_GT(ShareOf(outcome.answer, *thread, v1::REASON_LOCK, acquire).share, 0.98);
  // All waits are for one mutex: its address is the argument of the futex call.
  std::set<uint64_t> addresses;
  for (const v1::Sample& sample : outcome.answer.SamplesOf(*thread)) {
    if (Matches(outcome.answer, sample, acquire)) addresses.insert(sample.argument());
  }
  EXPECT_EQ(addresses.size(), 1U);

  ASSERT_NO_FATAL_FAILURE(Find(outcome, "holder", &self, &thread));
  ExpectWholeLife(*thread, *self);
  EXPECT_TRUE(Near(OffNs(*thread, v1::REASON_SLEEP) + OffNs(*thread, v1::REASON_RUNQUEUE),
                   self->WaitOffNs(), kLedgerTolerance));
  ExpectOnlyStacks(outcome.answer, *thread, v1::REASON_SLEEP,
                   {{{"waiter::MeteredSleep", "mutex::Hold", "mutex::Holder"}, "clock_nanosleep"}});
}

TEST_F(TargetsTest, PipePoller) {
  Outcome outcome;
  ASSERT_NO_FATAL_FAILURE(Run({"poll", "120"}, &outcome));
  const ExpectedStack by_poll{{"poll_pipe::PollOnce", "poll_pipe::Poller"}, "poll"};
  const ExpectedStack by_epoll{{"poll_pipe::EpollOnce", "poll_pipe::Poller"}, "epoll_wait"};
  ExpectOneWait(outcome, "poller", v1::REASON_POLL, {by_poll, by_epoll});
  ExpectOneWait(outcome, "feeder", v1::REASON_SLEEP,
                {{{"waiter::MeteredSleep", "poll_pipe::Feeder"}, "clock_nanosleep"}});
}

TEST_F(TargetsTest, ThreadThatMigrates) {
  Outcome outcome;
  ASSERT_NO_FATAL_FAILURE(Run({"migrate", "400"}, &outcome));
  const SelfMeasured* self;
  const v1::Thread* thread;
  ASSERT_NO_FATAL_FAILURE(Find(outcome, "migrant", &self, &thread));
  ExpectWholeLife(*thread, *self);
  ExpectOnlyStacks(
      outcome.answer, *thread, v1::REASON_SLEEP,
      {{{"waiter::MeteredSleep", "migrate::MoveAndNap", "migrate::Thread"}, "clock_nanosleep"}});
  // The naps alone; the moves wait for the kernel's migration thread.
  EXPECT_TRUE(Near(OffNs(*thread, v1::REASON_SLEEP), self->WaitOffNs(), kLedgerTolerance,
                   OffNs(*thread, v1::REASON_RUNQUEUE)));
}

// Threads that are still blocked when they are asked for: their time counts up to the request.
void ExpectStillBlocked(const Answer& answer, const SelfMeasured& self, int64_t wall_offset_ns,
                        v1::Reason reason, const ExpectedStack& stack) {
  const v1::Thread* thread = answer.FindThread(self.tid);
  ASSERT_NE(thread, nullptr) << self.name;
  EXPECT_FALSE(thread->exited());
  const int64_t blocked_since = std::max(self.end_ns + wall_offset_ns, answer.header.begin_ns());
  EXPECT_TRUE(
      Near(OffNs(*thread, reason), answer.header.end_ns() - blocked_since, kLedgerTolerance))
      << thread->DebugString();
  ExpectOnlyStacks(answer, *thread, reason, {stack});
}

TEST_F(TargetsTest, BlockedForTheWholeWindow) {
  Outcome outcome;
  ASSERT_NO_FATAL_FAILURE(Run({"stuck"}, &outcome));
  const SelfMeasured& self = *outcome.report.Named("stuck").front();
  const ExpectedStack stack{{"stuck::ReadForever", "stuck::Thread"}, "read"};
  std::this_thread::sleep_for(seconds(2));  // the length of the experiment
  ASSERT_NO_FATAL_FAILURE(Fetch(&outcome));
  ExpectStillBlocked(outcome.answer, self, outcome.report.wall_offset_ns, v1::REASON_PIPE, stack);

  // A window in which the thread did nothing at all.
  const int64_t begin = outcome.answer.header.end_ns();
  std::this_thread::sleep_for(seconds(1));
  const absl::StatusOr<Answer> window = daemon_->FetchProcess(outcome.report.pid, begin);
  ASSERT_TRUE(window.ok()) << window.status();
  EXPECT_TRUE(Near(window->header.begin_ns(), begin, 0, kClockSlewNs));
  const v1::Thread* thread = window->FindThread(self.tid);
  ASSERT_NE(thread, nullptr);
  const int64_t length = window->header.end_ns() - window->header.begin_ns();
  EXPECT_TRUE(Near(thread->wall_ns(), length, kIdentityTolerance));
  EXPECT_TRUE(Near(OffNs(*thread, v1::REASON_PIPE), length, kIdentityTolerance));
  ExpectOnlyStacks(*window, *thread, v1::REASON_PIPE, {stack});
  EXPECT_EQ(window->trailer.walks(), 0U) << "a wait seen twice is walked once";
}

TEST_F(TargetsTest, Deadlock) {
  Outcome outcome;
  ASSERT_NO_FATAL_FAILURE(Run({"deadlock"}, &outcome));
  // What they waited for before, each for the other, is not part of it.
  outcome.begin_wall_ns = outcome.answer.header.end_ns();
  std::this_thread::sleep_for(seconds(2));  // the length of the experiment
  ASSERT_NO_FATAL_FAILURE(Fetch(&outcome));
  for (const char* name : {"philosopher-1", "philosopher-2"}) {
    ExpectStillBlocked(outcome.answer, *outcome.report.Named(name).front(),
                       outcome.report.wall_offset_ns, v1::REASON_LOCK,
                       {{"deadlock::TakeSecond", "deadlock::Philosopher"}, "pthread_mutex_lock"});
  }
}

TEST_F(TargetsTest, KilledWhileBlocked) {
  Outcome outcome;
  ASSERT_NO_FATAL_FAILURE(Run({"stuck"}, &outcome));
  std::this_thread::sleep_for(seconds(1));  // the length of the experiment
  const int64_t killed = WallNs();
  outcome.target->process().Signal(SIGKILL);
  ASSERT_EQ(outcome.target->process().Wait(seconds(10)), 128 + SIGKILL);
  ASSERT_NO_FATAL_FAILURE(Fetch(&outcome));
  const SelfMeasured& self = *outcome.report.Named("stuck").front();
  const v1::Thread* thread = outcome.answer.FindThread(self.tid);
  ASSERT_NE(thread, nullptr);
  EXPECT_TRUE(thread->exited());
  const int64_t blocked = killed - (self.end_ns + outcome.report.wall_offset_ns);
  // 5 ms: the way from the signal to the end of the thread.
  EXPECT_TRUE(Near(OffNs(*thread, v1::REASON_PIPE), blocked, kLedgerTolerance, 5'000'000));
  ExpectOnlyStacks(outcome.answer, *thread, v1::REASON_PIPE,
                   {{{"stuck::ReadForever", "stuck::Thread"}, "read"}});
}

TEST_F(TargetsTest, ThreadsThatExit) {
  Outcome outcome;
  ASSERT_NO_FATAL_FAILURE(Run({"short-threads", "40"}, &outcome));
  const std::vector<const SelfMeasured*> all = outcome.report.Named("short-lived");
  ASSERT_EQ(all.size(), 40U);
  int64_t waited = 0, slept = 0, queued = 0;
  for (const SelfMeasured* self : all) {
    const v1::Thread* thread = outcome.answer.FindThread(self->tid);
    ASSERT_NE(thread, nullptr) << "thread " << self->tid << " is missing";
    EXPECT_TRUE(thread->exited());
    EXPECT_EQ(thread->name(), "short-lived");
    EXPECT_TRUE(AddsUp(*thread));
    EXPECT_EQ(Waits(*thread, v1::REASON_SLEEP), 1);
    EXPECT_GE(thread->wall_ns(), self->LifeNs());
    waited += self->WaitOffNs();
    slept += OffNs(*thread, v1::REASON_SLEEP);
    queued += OffNs(*thread, v1::REASON_RUNQUEUE);
    ExpectOnlyStacks(outcome.answer, *thread, v1::REASON_SLEEP,
                     {{{"waiter::MeteredSleep", "short_threads::Thread"}, "clock_nanosleep"}}, 0.4);
  }
  // A thread waits for a CPU at its birth, too, where it cannot measure yet.
  EXPECT_TRUE(Near(slept, waited, kLedgerTolerance, queued));
}

TEST_F(TargetsTest, ProcessThatExitsBeforeTheDrain) {
  Outcome outcome;
  ASSERT_NO_FATAL_FAILURE(Run({"naps", "50000", "6"}, &outcome));
  // A second one of which profd hears only by events: it is not asked before the end.
  absl::StatusOr<std::unique_ptr<Target>> target = Target::Start({"naps", "50000", "6"});
  ASSERT_TRUE(target.ok()) << target.status();
  ASSERT_TRUE(Eventually(seconds(10), [&] {
    const absl::StatusOr<v1::GetStatusResponse> status = daemon_->Status();
    if (!status.ok() || status->targets_size() != 1) return false;
    const auto& pids = status->targets(0).pids();
    return std::find(pids.begin(), pids.end(), (*target)->pid()) != pids.end();
  }));
  ASSERT_TRUE((*target)->Go());
  absl::StatusOr<Report> report = (*target)->AwaitReport();
  ASSERT_TRUE(report.ok()) << report.status();
  (*target)->process().CloseStdin();
  ASSERT_EQ((*target)->process().Wait(seconds(10)), 0);
  outcome.target = *std::move(target);
  outcome.report = *std::move(report);
  ASSERT_NO_FATAL_FAILURE(Fetch(&outcome));
  ExpectOneWait(outcome, "napper", v1::REASON_SLEEP, {kNaps}, 0.05);
}

TEST_F(TargetsTest, SlowPipe) {
  Outcome outcome;
  ASSERT_NO_FATAL_FAILURE(Run({"slow-pipe", "4"}, &outcome));
  const SelfMeasured* self;
  const v1::Thread* thread;
  ASSERT_NO_FATAL_FAILURE(Find(outcome, "pipe-writer", &self, &thread));
  ExpectWholeLife(*thread, *self);
  EXPECT_TRUE(Near(OffNs(*thread, v1::REASON_PIPE) + OffNs(*thread, v1::REASON_RUNQUEUE),
                   self->WaitOffNs(), kLedgerTolerance));
  // Four writes of 4 MB through 64 KiB: each blocks 63 times at least.
  EXPECT_GE(Waits(*thread, v1::REASON_PIPE), 4 * 63);
  ExpectOnlyStacks(outcome.answer, *thread, v1::REASON_PIPE,
                   {{{"slow_pipe::WriteAll", "slow_pipe::Writer"}, "write"}});
  ExpectOneWait(outcome, "pipe-reader", v1::REASON_SLEEP,
                {{{"waiter::MeteredSleep", "slow_pipe::Reader"}, "clock_nanosleep"}});
}

TEST_F(TargetsTest, FsyncLoop) {
  Outcome outcome;
  TemporaryDirectory directory;
  ASSERT_NO_FATAL_FAILURE(Run({"fsync", "2500", directory.path()}, &outcome));
  const SelfMeasured* self;
  const v1::Thread* thread;
  ASSERT_NO_FATAL_FAILURE(Find(outcome, "fsyncer", &self, &thread));
  if (self->WaitOffNs() < self->LifeNs() / 20) {
    GTEST_SKIP() << "fsync does not wait on the file system of " << directory.path();
  }
  ExpectWholeLife(*thread, *self);
  EXPECT_TRUE(Near(OffNs(*thread, v1::REASON_FSYNC) + OffNs(*thread, v1::REASON_RUNQUEUE),
                   self->WaitOffNs(), kLedgerTolerance))
      << thread->DebugString();
  // Waits of some 100 us: many of the walks race with their end, more so on busy CPUs.
  ExpectOnlyStacks(outcome.answer, *thread, v1::REASON_FSYNC,
                   {{{"fsync_loop::Flush", "fsync_loop::Thread"}, "fsync"}}, 0.5);
}

TEST_F(TargetsTest, RunQueue) {
  Outcome outcome;
  const int64_t stolen_before = StolenNs();
  ASSERT_NO_FATAL_FAILURE(Run({"spin", "2000", "3"}, &outcome));
  const int64_t stolen = StolenNs() - stolen_before;
  const std::vector<const SelfMeasured*> spinners = outcome.report.Named("spinner");
  ASSERT_EQ(spinners.size(), 3U);
  for (const SelfMeasured* self : spinners) {
    const v1::Thread* thread = outcome.answer.FindThread(self->tid);
    ASSERT_NE(thread, nullptr);
    EXPECT_TRUE(AddsUp(*thread));
    // It moved to its CPU before it began to measure: 20 ms cover that.
    EXPECT_TRUE(
        Near(OffNs(*thread, v1::REASON_RUNQUEUE), self->OffNs(), kLedgerTolerance, 20'000'000))
        << thread->DebugString();
    EXPECT_GT(OffNs(*thread, v1::REASON_RUNQUEUE), self->LifeNs() / 2);
    EXPECT_TRUE(Near(thread->on_cpu_ns(), self->cpu_ns, kLedgerTolerance, 5'000'000));
    EXPECT_TRUE(
        Near(thread->books_runqueue_ns(), OffNs(*thread, v1::REASON_RUNQUEUE), 0.02, stolen))
        << "stolen " << stolen;
    const ExpectedStack compute{{"spin::Compute", "spin::Thread"}, ""};
    const ExpectedStack clock{{"waiter::Now", "spin::Compute", "spin::Thread"}, ""};
    double share = ShareOf(outcome.answer, *thread, v1::REASON_RUNQUEUE, compute).share +
                   ShareOf(outcome.answer, *thread, v1::REASON_RUNQUEUE, clock).share;
    EXPECT_GT(share, 0.9);
  }
}

TEST_F(TargetsTest, SharesOfTwoPaths) {
  Outcome outcome;
  ASSERT_NO_FATAL_FAILURE(Run({"two-paths", "6000", "7"}, &outcome));
  const ExpectedStack paths[] = {
      {{"waiter::MeteredSleep", "two_paths::LongPath", "two_paths::Thread"}, "clock_nanosleep"},
      {{"waiter::MeteredSleep", "two_paths::ShortPath", "two_paths::Thread"}, "clock_nanosleep"}};
  ExpectOneWait(outcome, "two-paths", v1::REASON_SLEEP, {paths[0], paths[1]});
  const SelfMeasured& self = *outcome.report.Named("two-paths").front();
  const v1::Thread& thread = *outcome.answer.FindThread(self.tid);
  for (int path : {1, 2}) {
    int64_t truth = 0;
    for (const SelfMeasured::Wait& wait : self.waits) {
      if (wait.path == path) truth += wait.end_ns - wait.begin_ns;
    }
    const double true_share = static_cast<double>(truth) / static_cast<double>(self.wait_wall_ns);
    const PathShare seen = ShareOf(outcome.answer, thread, v1::REASON_SLEEP, paths[path - 1]);
    EXPECT_NEAR(seen.share, true_share, 4 * ShareError(seen.share, seen.effective_ticks))
        << "path " << path << " of " << seen.effective_ticks << " ticks";
    EXPECT_NEAR(static_cast<double>(seen.time_ns),
                seen.share * static_cast<double>(OffNs(thread, v1::REASON_SLEEP)), 1e3);
  }
}

TEST_F(TargetsTest, BigFrames) {
  Outcome outcome;
  ASSERT_NO_FATAL_FAILURE(Run({"big-frame", "100"}, &outcome));
  ExpectOneWait(outcome, "big-frame", v1::REASON_SLEEP,
                {{{"waiter::MeteredSleep", "big_frame::Frame40000", "big_frame::Frame100000",
                   "big_frame::Frame540000", "big_frame::FrameAlloca", "big_frame::FrameAligned",
                   "big_frame::Thread"},
                  "clock_nanosleep"}});
}

TEST_F(TargetsTest, DeepRecursion) {
  Outcome outcome;
  ASSERT_NO_FATAL_FAILURE(Run({"deep", "120", "100"}, &outcome));
  ExpectedStack stack{{"waiter::MeteredSleep"}, "clock_nanosleep"};
  stack.functions.insert(stack.functions.end(), 120, "deep::Descend");
  stack.functions.push_back("deep::Thread");
  ExpectOneWait(outcome, "deep", v1::REASON_SLEEP, {stack});
}

TEST_F(TargetsTest, DeeperThanTheWalkGoes) {
  Outcome outcome;
  ASSERT_NO_FATAL_FAILURE(Run({"deep", "1000", "50"}, &outcome));
  const SelfMeasured* self;
  const v1::Thread* thread;
  ASSERT_NO_FATAL_FAILURE(Find(outcome, "deep", &self, &thread));
  ExpectWholeLife(*thread, *self);
  // The stack says why it ends and keeps its weight.
  int64_t time = 0;
  for (const v1::Sample& sample : outcome.answer.SamplesOf(*thread)) {
    if (sample.reason() != v1::REASON_SLEEP || outcome.answer.IsRaced(sample)) continue;
    EXPECT_FALSE(outcome.answer.IsComplete(sample));
    const std::vector<v1::Frame> frames = outcome.answer.FramesOf(sample);
    EXPECT_EQ(frames.back().function(), "[stack too deep]");
    EXPECT_EQ(frames.back().kind(), v1::FRAME_KIND_SYNTHETIC);
    EXPECT_GE(frames.size(), 127U);
    time += sample.time_ns();
  }
  EXPECT_TRUE(Near(time, OffNs(*thread, v1::REASON_SLEEP), 0.05));
  EXPECT_LT(outcome.answer.trailer.complete_share(), 0.9);
}

TEST_F(TargetsTest, Coroutine) {
  Outcome outcome;
  ASSERT_NO_FATAL_FAILURE(Run({"coroutine", "100"}, &outcome));
  ExpectOneWait(outcome, "coroutine", v1::REASON_SLEEP,
                {{{"waiter::MeteredSleep", "coroutine::Body", "CoroutineStart"},
                  "clock_nanosleep",
                  "CoroutineStart"}});

  // libc's makecontext has no rule that says where the stack ends: all functions are there, and
  // the last frame says why it is not called complete.
  const SelfMeasured* self;
  const v1::Thread* thread;
  ASSERT_NO_FATAL_FAILURE(Find(outcome, "ucontext", &self, &thread));
  ExpectWholeLife(*thread, *self);
  int64_t time = 0;
  for (const v1::Sample& sample : outcome.answer.SamplesOf(*thread)) {
    if (sample.reason() != v1::REASON_SLEEP || outcome.answer.IsRaced(sample)) continue;
    EXPECT_TRUE(absl::StrContains(outcome.answer.Describe(sample), "coroutine::Body"));
    const v1::Frame root = outcome.answer.FramesOf(sample).back();
    EXPECT_EQ(outcome.answer.IsComplete(sample), root.kind() != v1::FRAME_KIND_SYNTHETIC);
    time += sample.time_ns();
  }
  EXPECT_TRUE(Near(time, OffNs(*thread, v1::REASON_SLEEP), 0.05));
}

TEST_F(TargetsTest, SignalHandler) {
  Outcome outcome;
  ASSERT_NO_FATAL_FAILURE(Run({"signal", "100"}, &outcome));
  const ExpectedStack stack{{"waiter::MeteredSleep", "signal_handler::Handler",
                             "signal_handler::Interrupted", "signal_handler::Thread"},
                            "clock_nanosleep"};
  for (const char* name : {"signal-own", "signal-below", "signal-above"}) {
    ExpectOneWait(outcome, name, v1::REASON_SLEEP, {stack});
  }
}

TEST_F(TargetsTest, ReasonsOfWaits) {
  Outcome outcome;
  ASSERT_NO_FATAL_FAILURE(Run({"reasons", "100"}, &outcome));
  ExpectOneWait(outcome, "net", v1::REASON_NET,
                {{{"reasons::Receive", "reasons::NetThread"}, "recv"}});
  ExpectOneWait(outcome, "child", v1::REASON_CHILD,
                {{{"reasons::Reap", "reasons::ChildThread"}, "wait"}});
  ExpectOneWait(outcome, "signal", v1::REASON_SIGNAL,
                {{{"reasons::AwaitSignal", "reasons::SignalThread"}, ""}});
  if (!outcome.report.Named("fault").empty()) {
    ExpectOneWait(outcome, "fault", v1::REASON_FAULT,
                  {{{"reasons::Touch", "reasons::FaultThread"}, ""}});
  }
}

TEST_F(TargetsTest, ForkAndExec) {
  Outcome parent;
  absl::StatusOr<std::unique_ptr<Target>> target = Target::Start({"fork", "1500"});
  ASSERT_TRUE(target.ok()) << target.status();
  parent.target = *std::move(target);
  ASSERT_TRUE(daemon_->AwaitTarget(parent.target->pid()).has_value());
  ASSERT_TRUE(parent.target->Go());

  Outcome child;
  absl::StatusOr<Report> report = parent.target->AwaitReport();
  ASSERT_TRUE(report.ok()) << report.status();
  child.report = *std::move(report);
  EXPECT_NE(child.report.pid, parent.target->pid());
  // What the child became waits for its line, and ends when it finds no more.
  ASSERT_TRUE(parent.target->process().LineWith(Subprocess::Stream::kStdout, "ready", seconds(10)));
  ASSERT_TRUE(parent.target->Go());
  absl::StatusOr<Report> image = parent.target->AwaitReport();
  ASSERT_TRUE(image.ok()) << image.status();
  parent.target->process().CloseStdin();
  ASSERT_EQ(parent.target->process().Wait(seconds(10)), 0);

  // One thread id, two lives: the fork's naps and, after exec, the wait for the line and the join.
  const absl::StatusOr<Answer> answer =
      daemon_->FetchProcess(child.report.pid, parent.target->started_wall_ns());
  ASSERT_TRUE(answer.ok()) << answer.status();
  const SelfMeasured& self = *child.report.Named("forked").front();
  const v1::Thread* thread = answer->FindThread(self.tid);
  ASSERT_NE(thread, nullptr);
  EXPECT_TRUE(AddsUp(*thread));
  EXPECT_TRUE(Near(OffNs(*thread, v1::REASON_SLEEP), self.WaitOffNs(), kLedgerTolerance,
                   OffNs(*thread, v1::REASON_RUNQUEUE)));
  ExpectOnlyStacks(
      *answer, *thread, v1::REASON_SLEEP,
      {{{"waiter::MeteredSleep", "fork_exec::InChild", "waiter::Fork", "main", "_start"},
        "clock_nanosleep",
        "_start"}});
  const SelfMeasured& napper = *image->Named("napper").front();
  const v1::Thread* napping = answer->FindThread(napper.tid);
  ASSERT_NE(napping, nullptr);
  ExpectWholeLife(*napping, napper);
  ExpectOnlyStacks(*answer, *napping, v1::REASON_SLEEP, {kNaps});
}

TEST_F(TargetsTest, LibraryLoadedWhileItRuns) {
  Outcome outcome;
  ASSERT_NO_FATAL_FAILURE(Run({"plugin", "150", PLUGIN_LIBRARY}, &outcome));
  const SelfMeasured* self;
  const v1::Thread* thread;
  ASSERT_NO_FATAL_FAILURE(Find(outcome, "plugin", &self, &thread));
  ExpectWholeLife(*thread, *self);
  // The first walks that meet the library ask for its rules; until they are there, a quarter of a
  // second at most, the stack says so. It is unloaded by now, and still has names.
  const ExpectedStack stack{{"PluginSleep", "PluginNap", "plugin::Thread"}, "clock_nanosleep"};
  int64_t pending = 0, matched = 0, all = 0;
  for (const v1::Sample& sample : outcome.answer.SamplesOf(*thread)) {
    if (sample.reason() != v1::REASON_SLEEP) continue;
    all += sample.time_ns();
    if (Matches(outcome.answer, sample, stack)) {
      matched += sample.time_ns();
    } else if (!outcome.answer.IsRaced(sample)) {
      EXPECT_FALSE(outcome.answer.IsComplete(sample)) << outcome.answer.Describe(sample);
      EXPECT_EQ(outcome.answer.FramesOf(sample).back().function(), "[unwind rules pending]");
      pending += sample.time_ns();
    }
  }
  EXPECT_LE(pending, 250'000'000);
  EXPECT_GT(matched, all * 9 / 10);
}

}  // namespace
}  // namespace profd::e2e
