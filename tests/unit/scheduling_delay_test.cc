#include "client/analysis/scheduling_delay.h"

#include <cmath>
#include <map>
#include <random>
#include <string>

#include "client/analysis/chains.h"
#include "client/render/scheduling_delay.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/fixture_activity.h"

namespace profctl {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

Chains Follow(const Program& program, uint32_t group, const ChainOptions& options = {}) {
  return FollowChains(program.activity(), {.part = group, .whole = group}, options);
}

SchedulingDelay Find(const Program& program, uint32_t group, const ChainOptions& options = {}) {
  return FindSchedulingDelay(Follow(program, group, options));
}

std::string Page(const Program& program, uint32_t group) {
  const Chains chains = Follow(program, group);
  const SchedulingDelay delay = FindSchedulingDelay(chains);
  return SchedulingDelayLead(delay, chains) +
         SchedulingDelayText(delay, chains, GroupTexts(program.activity()), false);
}

State& Queue(Program& program, uint32_t group, double seconds) {
  return program.Do(group, profd::v1::REASON_RUNQUEUE, "Queue", seconds);
}

// Inherited through so many wakers, seconds.
double Inherited(const SchedulingDelay& delay, int wakers) {
  for (const InheritedDelay& part : delay.inherited) {
    if (part.wakers == wakers) return part.delay.time_ns / kS;
  }
  return 0;
}

double QueuedBy(const SchedulingDelay& delay, uint32_t group, int wakers) {
  for (const QueuedGroup& part : delay.queued) {
    if (part.group == group && part.wakers == wakers) return part.delay.time_ns / kS;
  }
  return 0;
}

// The parts are parts of the first waits.
void ExpectAddsUp(const Chains& chains, const SchedulingDelay& delay) {
  const double precision = 1e-6 * chains.waits_ns;
  std::map<int, double> queued;
  for (const QueuedGroup& part : delay.queued) queued[part.wakers] += part.delay.time_ns;
  double all = delay.own.time_ns;
  for (const InheritedDelay& part : delay.inherited) {
    EXPECT_GE(part.wakers, 1);
    EXPECT_NEAR(part.delay.time_ns, queued[part.wakers], precision);
    all += part.delay.time_ns;
  }
  EXPECT_EQ(queued.size(), delay.inherited.size());
  EXPECT_NEAR(delay.all.time_ns, all, precision);
  EXPECT_NEAR(delay.all.time_ns + delay.unresolved_ns + delay.rest_ns, chains.waits_ns, precision);
  double ends = 0;
  for (const ChainEnd& end : chains.ends) {
    if (end.end.kind == LinkKind::kRunQueue) ends += end.end.time_ns;
  }
  EXPECT_NEAR(delay.all.time_ns, ends, precision);
}

// a waits for b, which waits for c; all of them wait for a CPU, too.
struct Three {
  Program program;
  uint32_t a = program.Add("a"), b = program.Add("b"), c = program.Add("c");

  Three() {
    program.Wait(a, profd::v1::REASON_LOCK, 20, By(b));
    Queue(program, a, 4);
    program.Run(b, "Work", 8);
    Queue(program, b, 4);
    program.Wait(b, profd::v1::REASON_PIPE, 8, By(c));
    program.Run(c, "Work", 15);
    Queue(program, c, 5);
    program.Wait(c, profd::v1::REASON_PIPE, 10, By(b));
  }
};

TEST(SchedulingDelayTest, IsInheritedByChainLength) {
  const Three three;
  const SchedulingDelay delay = Find(three.program, three.a);
  ExpectAddsUp(Follow(three.program, three.a), delay);
  EXPECT_NEAR(delay.own.time_ns / kS, 4, 1e-9);
  ASSERT_THAT(delay.inherited, SizeIs(2));
  EXPECT_NEAR(Inherited(delay, 1), 4, 1e-9);
  // c spends a quarter of its time in the run queue while b waits for it.
  EXPECT_NEAR(Inherited(delay, 2), 2, 1e-9);
  EXPECT_NEAR(QueuedBy(delay, three.b, 1), 4, 1e-9);
  EXPECT_NEAR(QueuedBy(delay, three.c, 2), 2, 1e-9);
  EXPECT_NEAR(delay.all.time_ns / kS, 10, 1e-9);
  EXPECT_NEAR(delay.rest_ns / kS, 8 + 6, 1e-9);
  EXPECT_NEAR(delay.unresolved_ns / kS, 0, 1e-9);
}

TEST(SchedulingDelayTest, BeyondTheDepthItIsUnresolved) {
  const Three three;
  ChainOptions options;
  options.depth = 1;
  const SchedulingDelay delay = Find(three.program, three.a, options);
  ExpectAddsUp(Follow(three.program, three.a, options), delay);
  ASSERT_THAT(delay.inherited, SizeIs(1));
  EXPECT_NEAR(Inherited(delay, 1), 4, 1e-9);
  EXPECT_NEAR(delay.unresolved_ns / kS, 8, 1e-9);
}

TEST(SchedulingDelayTest, WaitsThatWereNotAskedForAreNoPart) {
  const Three three;
  ChainOptions options;
  options.reasons = {profd::v1::REASON_LOCK};
  const SchedulingDelay delay = Find(three.program, three.a, options);
  EXPECT_NEAR(delay.own.time_ns, 0, 1e-9);
  EXPECT_NEAR(delay.all.time_ns / kS, 6, 1e-9);
}

// What a waker waits for that nobody knows, or who is not watched, may be a CPU.
TEST(SchedulingDelayTest, WhatNobodySawIsUnresolved) {
  Program program;
  const uint32_t a = program.Add("a"), b = program.Add("b");
  program.Wait(a, profd::v1::REASON_LOCK, 5, ByNobody());
  program.Wait(a, profd::v1::REASON_PIPE, 2, {.kind = WakerKind::kOutside, .name = "cat"});
  program.Wait(a, profd::v1::REASON_NET, 3, ByInterrupt("[network]"));
  program.Wait(a, profd::v1::REASON_FSYNC, 4, By(b));
  Queue(program, b, 1);
  const SchedulingDelay delay = Find(program, a);
  EXPECT_NEAR(delay.all.time_ns / kS, 1, 1e-9);
  EXPECT_NEAR(delay.unresolved_ns / kS, 5 + 2 + 3, 1e-9);
  EXPECT_NEAR(delay.rest_ns / kS, 3, 1e-9);
}

// The same group on two chains of different lengths, and on two of one length.
TEST(SchedulingDelayTest, EqualEndsAddUpWithTheirErrors) {
  Program program;
  const uint32_t a = program.Add("a"), b = program.Add("b"), c = program.Add("c");
  program.Wait(a, profd::v1::REASON_LOCK, 4, By(c)).variance = 0.01 * kS * kS;
  program.Wait(a, profd::v1::REASON_PIPE, 6, By(c)).variance = 0.04 * kS * kS;
  program.Wait(a, profd::v1::REASON_PIPE, 10, By(b));
  program.Wait(b, profd::v1::REASON_PIPE, 10, By(c));
  Queue(program, c, 20);
  const SchedulingDelay delay = Find(program, a);
  EXPECT_NEAR(QueuedBy(delay, c, 1), 10, 1e-9);
  EXPECT_NEAR(QueuedBy(delay, c, 2), 10, 1e-9);
  ASSERT_THAT(delay.inherited, SizeIs(2));
  // c does nothing else: of the waits themselves.
  EXPECT_NEAR(delay.inherited[0].delay.error_ns / kS, 0.1 + 0.2, 1e-9);
}

// Threads of one group that wait for each other: who holds the lock waits for a CPU.
TEST(SchedulingDelayTest, AGroupInheritsFromItsOwnThreads) {
  Program program;
  const uint32_t workers = program.Add("worker", 4);
  program.Wait(workers, profd::v1::REASON_LOCK, 80, By(workers));
  Queue(program, workers, 10);
  program.Run(workers, "Put", 10);
  const SchedulingDelay delay = Find(program, workers);
  EXPECT_NEAR(delay.own.time_ns / kS, 10, 1e-9);
  EXPECT_NEAR(QueuedBy(delay, workers, 1), 40, 1e-9);
}

TEST(SchedulingDelayTest, RandomProgramsAddUp) {
  std::mt19937 random(17);
  int inherited = 0;
  for (int i = 0; i < 200; i++) {
    const Program program = DrawProgram(random);
    const auto groups = static_cast<uint32_t>(program.activity().groups.size());
    for (uint32_t g = 0; g < groups; g++) {
      const Chains chains = Follow(program, g);
      const SchedulingDelay delay = FindSchedulingDelay(chains);
      ExpectAddsUp(chains, delay);
      if (!delay.inherited.empty()) inherited++;
    }
  }
  EXPECT_GT(inherited, 50);
}

// The stated errors against the deviations of runs whose samples are drawn.
TEST(SchedulingDelayTest, ErrorsAreNotTooSmall) {
  std::mt19937_64 random(19);
  constexpr int kRuns = 1000;
  constexpr double kVariance = 0.01 * kS * kS;
  const auto run = [&](double error) {
    const auto drawn = [&](double value) {
      return error > 0 ? std::normal_distribution<>(value, error)(random) : value;
    };
    Program program;
    const uint32_t a = program.Add("a"), b = program.Add("b"), c = program.Add("c");
    program.Wait(a, profd::v1::REASON_LOCK, drawn(10), By(b)).variance = kVariance;
    Queue(program, a, drawn(3)).variance = kVariance;
    program.Run(b, "Work", drawn(6)).variance = kVariance;
    Queue(program, b, drawn(4)).variance = kVariance;
    program.Wait(b, profd::v1::REASON_PIPE, drawn(8), By(c)).variance = kVariance;
    program.Run(c, "Work", drawn(5)).variance = kVariance;
    Queue(program, c, drawn(10)).variance = kVariance;
    return Find(program, a);
  };
  const SchedulingDelay truth = run(0);
  ASSERT_THAT(truth.inherited, SizeIs(2));
  double own = 0, all = 0, first = 0, second = 0;
  for (int i = 0; i < kRuns; i++) {
    const SchedulingDelay drawn = run(0.1);
    own += std::pow(drawn.own.time_ns - truth.own.time_ns, 2);
    all += std::pow(drawn.all.time_ns - truth.all.time_ns, 2);
    first += std::pow((Inherited(drawn, 1) - Inherited(truth, 1)) * kS, 2);
    second += std::pow((Inherited(drawn, 2) - Inherited(truth, 2)) * kS, 2);
  }
  const auto expect = [&](double squares, const Delay& delay) {
    const double measured = std::sqrt(squares / kRuns);
    EXPECT_GT(delay.error_ns, 0.9 * measured);
    EXPECT_LT(delay.error_ns, 2.0 * measured);
  };
  expect(own, truth.own);
  expect(first, truth.inherited[0].delay);
  expect(second, truth.inherited[1].delay);
  expect(all, truth.all);
}

TEST(SchedulingDelayTest, ThePageHasALineForEachChainLength) {
  Three three;
  const uint32_t d = three.program.Add("d");
  three.program.Wait(three.a, profd::v1::REASON_PIPE, 16, By(d));
  Queue(three.program, d, 16);
  EXPECT_EQ(Page(three.program, three.a), R"(Scheduling delay is 65.0% ± 0.0% of these waits: )"
                                          R"(10.0% its own, 55.0% inherited through wakers.
Scheduling delay (shares of these waits; ± one standard error)
   10.0%   4.00 s ± 0 ns      own: a waits for a CPU
   50.0%   20.0 s ± 0 ns      inherited through 1 waker
   40.0%   16.0 s ± 0 ns        d waits for a CPU
   10.0%   4.00 s ± 0 ns        b waits for a CPU
    5.0%   2.00 s ± 0 ns      inherited through 2 wakers: c waits for a CPU
  'profctl fetch --kind runqueue' shows who had the CPUs meanwhile.
)");
}

TEST(SchedulingDelayTest, ThePageSaysWhatMayBeDelayToo) {
  Three three;
  three.program.Wait(three.a, profd::v1::REASON_PIPE, 6, ByNobody());
  EXPECT_THAT(Page(three.program, three.a),
              HasSubstr("It may be up to 20.0% more: that much is unknown, not watched or not"));
}

TEST(SchedulingDelayTest, TheHeadOfThePageHasItOnlyIfItIsLargeForCertain) {
  Program program;
  const uint32_t a = program.Add("a");
  program.Wait(a, profd::v1::REASON_NET, 10, ByInterrupt("[network]"));
  State& queue = Queue(program, a, 2);
  EXPECT_THAT(Page(program, a), HasSubstr("Scheduling delay is 16.7%"));
  queue.variance = 0.5 * kS * 0.5 * kS;
  EXPECT_THAT(Page(program, a), Not(HasSubstr("Scheduling delay is")));
  EXPECT_THAT(Page(program, a), HasSubstr("own: a waits for a CPU"));
  queue.time_ns = 0.05 * kS;
  EXPECT_THAT(Page(program, a), IsEmpty());
}

}  // namespace
}  // namespace profctl
