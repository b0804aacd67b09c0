#include "client/analysis/bottlenecks.h"

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "client/analysis/wait_graph.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/fixture_activity.h"

namespace profctl {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

WaitGraph Graph(const Program& program) {
  return BuildWaitGraph(program.activity(), program.activity().groups.size());
}
BottleneckReport Find(const Program& program, const BottleneckOptions& options = {}) {
  return FindBottlenecks(program.activity(), program.activity().groups.size(), options);
}

// The one at this function of the first knot.
const Bottleneck* At(const BottleneckReport& report, uint32_t group, const std::string& function) {
  for (const Bottleneck& bottleneck : report.knots.at(0).bottlenecks) {
    if (bottleneck.group == group && bottleneck.what.function == function) return &bottleneck;
  }
  return nullptr;
}

State& Nap(Program& program, uint32_t group, const std::string& function, double seconds) {
  State& state =
      program.Do(group, profd::v1::REASON_SLEEP, function, seconds, ByInterrupt("[timer]"));
  state.idle = true;
  return state;
}

State& Idle(Program& program, uint32_t group, double seconds) {
  State& state = program.Wait(group, profd::v1::REASON_POLL, seconds, ByInterrupt("[network]"));
  state.idle = state.for_work = true;
  return state;
}

void ExpectAddsUp(const WaitGraph& graph) {
  double ended = graph.unresolved_ns;
  for (const WaitNode& node : graph.nodes) ended += node.ended_ns;
  EXPECT_NEAR(ended, graph.waits_ns, 1e-6 * graph.waits_ns + 1);
}

// a waits 12 s for b, which works 10 s and waits 20 s for c, which works all the time.
TEST(WaitGraphTest, WaitsGoOnInProportion) {
  Program program;
  const uint32_t a = program.Add("a"), b = program.Add("b"), c = program.Add("c");
  program.Run(a, "A", 18);
  program.Wait(a, profd::v1::REASON_LOCK, 12, By(b));
  program.Run(b, "B", 10);
  program.Wait(b, profd::v1::REASON_LOCK, 20, By(c));
  program.Run(c, "C", 30);
  const WaitGraph graph = Graph(program);
  ExpectAddsUp(graph);
  EXPECT_NEAR(graph.nodes[b].ended_ns, 4 * kS, 100);
  EXPECT_NEAR(graph.nodes[c].ended_ns, (20 + 8) * kS, 100);
  EXPECT_NEAR(graph.nodes[b].waits_for.at(c).flow_ns, 28 * kS, 100);
  EXPECT_THAT(FindKnots(graph), ElementsAre(Knot{c}));
}

// Both wait for each other half of the time. What a waits for b goes back to a by half, and so on:
// 15 + 15/2 * 1/2 ... sums to as much for each.
TEST(WaitGraphTest, CyclesConverge) {
  Program program;
  const uint32_t a = program.Add("a"), b = program.Add("b");
  program.Run(a, "A", 15);
  program.Wait(a, profd::v1::REASON_PIPE, 15, By(b));
  program.Run(b, "B", 15);
  program.Wait(b, profd::v1::REASON_PIPE, 15, By(a));
  const WaitGraph graph = Graph(program);
  ExpectAddsUp(graph);
  EXPECT_NEAR(graph.nodes[a].ended_ns, 15 * kS, 100);
  EXPECT_NEAR(graph.nodes[b].ended_ns, 15 * kS, 100);
  EXPECT_THAT(FindKnots(graph), ElementsAre(Knot{a, b}));
}

TEST(WaitGraphTest, ADeadlockIsUnresolved) {
  Program program;
  const uint32_t a = program.Add("a"), b = program.Add("b");
  program.Wait(a, profd::v1::REASON_LOCK, 30, By(b));
  program.Wait(b, profd::v1::REASON_LOCK, 30, By(a));
  const WaitGraph graph = Graph(program);
  ExpectAddsUp(graph);
  EXPECT_NEAR(graph.unresolved_ns, 60 * kS, 100);
  EXPECT_THAT(Find(program).knots, IsEmpty());
}

TEST(WaitGraphTest, ErrorsAndTriflesTieNothing) {
  Program program;
  const uint32_t a = program.Add("a"), b = program.Add("b"), c = program.Add("c");
  program.Run(a, "A", 29);
  program.Wait(a, profd::v1::REASON_LOCK, 1, By(b));  // less than 5 %
  program.Run(b, "B", 20);
  program.Wait(b, profd::v1::REASON_LOCK, 10, By(c)).variance = 36 * kS * kS;  // within 2 SE
  program.Run(c, "C", 30);
  EXPECT_THAT(FindKnots(Graph(program)), SizeIs(3));
}

// A pipeline: each stage asks a peer that naps for it, 4, 10 and 4 ms of 10 ms.
TEST(BottlenecksTest, ThePipelinesMiddleStage) {
  Program program;
  const uint32_t parse = program.Add("parse"), store = program.Add("store");
  const uint32_t send = program.Add("send");
  const uint32_t parse_peer = program.Add("parse-peer"), store_peer = program.Add("store-peer");
  const uint32_t send_peer = program.Add("send-peer");
  program.Wait(parse, profd::v1::REASON_PIPE, 12, By(parse_peer));
  program.Wait(parse, profd::v1::REASON_LOCK, 18, By(store));
  program.Wait(store, profd::v1::REASON_PIPE, 30, By(store_peer));
  program.Wait(send, profd::v1::REASON_PIPE, 12, By(send_peer));
  program.Wait(send, profd::v1::REASON_LOCK, 18, By(store));
  Nap(program, parse_peer, "Serve", 12);
  program.Wait(parse_peer, profd::v1::REASON_PIPE, 18, By(parse));
  Nap(program, store_peer, "Serve", 30);
  Nap(program, send_peer, "Serve", 12);
  program.Wait(send_peer, profd::v1::REASON_PIPE, 18, By(send));
  const BottleneckReport report = Find(program);
  ASSERT_THAT(report.knots, SizeIs(1));
  const KnotReport& knot = report.knots[0];
  EXPECT_THAT(knot.groups, ElementsAre(store_peer));
  EXPECT_THAT(knot.waiters, ElementsAre(parse, store, send, parse_peer, send_peer));
  ASSERT_THAT(knot.bottlenecks, SizeIs(1));
  // Then a peer of the others has no time left: 30 s of 12 s.
  const Bottleneck& first = knot.bottlenecks[0];
  EXPECT_EQ(first.what.function, "Serve");
  EXPECT_NEAR(first.gain.at_most.value(), 2.5, 1e-6);
  EXPECT_THAT(first.gain.next.value(), ::testing::AnyOf(parse_peer, send_peer));
  EXPECT_NEAR(knot.busy, 1, 1e-9);
}

// A pool waits for work that never comes, one by one without a waker, and sleeps in between.
TEST(BottlenecksTest, AnIdlePoolIsNoBottleneck) {
  Program program;
  const uint32_t pool = program.Add("pool", 16), worker = program.Add("worker");
  program.Wait(pool, profd::v1::REASON_LOCK, 400, ByNobody());
  Nap(program, pool, "Rest", 80);
  Idle(program, program.Add("server"), 30);
  program.Run(worker, "Work", 30);
  const BottleneckReport report = Find(program);
  ASSERT_THAT(report.knots, SizeIs(1));
  EXPECT_THAT(report.knots[0].groups, ElementsAre(worker));
}

// Four threads hold a mutex for 1 ms and work 1 ms outside, in turns of 4 ms.
TEST(BottlenecksTest, AHotLock) {
  Program program;
  const uint32_t workers = program.Add("worker", 4);
  program.Wait(workers, profd::v1::REASON_LOCK, 60, By(workers, "Put"));
  program.Run(workers, "Put", 30);
  program.Run(workers, "Prepare", 30);
  const BottleneckReport report = Find(program);
  ASSERT_THAT(report.knots, SizeIs(1));
  EXPECT_THAT(report.knots[0].groups, ElementsAre(workers));
  // Without waits they work all the time; without holding, twice as much is left.
  EXPECT_NEAR(At(report, workers, "W")->gain.at_most.value(), 2, 1e-9);
  EXPECT_NEAR(At(report, workers, "Put")->gain.at_most.value(), 4, 1e-9);
  EXPECT_NEAR(At(report, workers, "Put")->others_ns, 30 * kS, 100);
}

TEST(BottlenecksTest, ASingleThreadOnTheDisk) {
  Program program;
  const uint32_t only = program.Add("only");
  program.Run(only, "Parse", 10);
  program.Wait(only, profd::v1::REASON_FSYNC, 20, ByInterrupt("[block]"));
  const BottleneckReport report = Find(program);
  ASSERT_THAT(report.knots, SizeIs(1));
  EXPECT_NEAR(At(report, only, "W")->gain.at_most.value(), 3, 1e-9);
  EXPECT_NEAR(At(report, only, "Parse")->gain.at_most.value(), 1.5, 1e-9);
  EXPECT_EQ(report.knots[0].bottlenecks[0].what.function, "W");
}

// Whoever saw half of them end: without these waits, all of them are gone.
TEST(BottlenecksTest, AWaitForTheDiskIsOneWhoeverSawItEnd) {
  Program program;
  const uint32_t only = program.Add("only");
  program.Run(only, "Parse", 10);
  program.Wait(only, profd::v1::REASON_FSYNC, 8, ByNobody());
  program.Wait(only, profd::v1::REASON_FSYNC, 12, ByInterrupt("[block]"));
  const BottleneckReport report = Find(program);
  ASSERT_THAT(report.knots.at(0).bottlenecks, SizeIs(2));
  const Bottleneck& wait = report.knots[0].bottlenecks[0];
  EXPECT_NEAR(wait.gain.at_most.value(), 3, 1e-9);
  EXPECT_NEAR(wait.time.ns, 20 * kS, 100);
  EXPECT_EQ(wait.what.waker, ByInterrupt("[block]"));
}

TEST(BottlenecksTest, OnTheCpuAlone) {
  Program program;
  const uint32_t only = program.Add("only", 2);
  program.Run(only, "Solve", 60);
  const BottleneckReport report = Find(program);
  ASSERT_THAT(report.knots, SizeIs(1));
  ASSERT_THAT(report.knots[0].bottlenecks, SizeIs(1));
  EXPECT_FALSE(report.knots[0].bottlenecks[0].gain.at_most.has_value());
  EXPECT_FALSE(report.knots[0].bottlenecks[0].gain.next.has_value());
}

TEST(BottlenecksTest, WaitingForACpu) {
  Program program;
  const uint32_t only = program.Add("only", 4);
  program.Run(only, "Solve", 60);
  program.Do(only, profd::v1::REASON_RUNQUEUE, "", 60);
  EXPECT_NEAR(At(Find(program), only, "")->gain.at_most.value(), 2, 1e-9);
}

// A long wait that does not matter: a waits most of the time for b, b for c only now and then.
TEST(BottlenecksTest, ALongWaitGainsNothing) {
  Program program;
  const uint32_t a = program.Add("a"), b = program.Add("b");
  program.Run(a, "A", 3);
  program.Wait(a, profd::v1::REASON_LOCK, 27, By(b));
  program.Run(b, "B", 20);
  program.Wait(b, profd::v1::REASON_LOCK, 10, By(a));
  const BottleneckReport report = Find(program);
  ASSERT_THAT(report.knots[0].groups, ElementsAre(a, b));
  EXPECT_NEAR(At(report, a, "W")->gain.at_most.value(), 1.5, 1e-9);
  EXPECT_NEAR(At(report, b, "W")->gain.at_most.value(), 1.5, 1e-9);
  EXPECT_NEAR(At(report, b, "B")->gain.at_most.value(), 10, 1e-9);
  EXPECT_NEAR(At(report, a, "A")->gain.at_most.value(), 1.5, 1e-9);
}

// A timer's waits are work only as far as somebody waits for them.
TEST(BottlenecksTest, ANapCountsAsFarAsItIsAwaited) {
  Program program;
  const uint32_t a = program.Add("a"), b = program.Add("b");
  program.Run(a, "A", 27);
  program.Wait(a, profd::v1::REASON_PIPE, 3, By(b));
  program.Run(b, "B", 6);
  Nap(program, b, "Nap", 24);
  const WaitGraph graph = Graph(program);
  EXPECT_NEAR(graph.nodes[b].awaited, 0.1, 1e-9);
  EXPECT_NEAR(graph.nodes[b].Demand().ns, 8.4 * kS, 100);
}

// Waits that nobody saw end may be work: they lower the low end only.
TEST(BottlenecksTest, UnknownWakersWidenTheInterval) {
  Program program;
  const uint32_t a = program.Add("a"), b = program.Add("b");
  program.Run(a, "A", 10);
  program.Wait(a, profd::v1::REASON_LOCK, 15, By(b));
  program.Wait(a, profd::v1::REASON_LOCK, 5, ByNobody());
  program.Run(b, "B", 30);
  BottleneckReport report = Find(program);
  const Gain& gain = At(report, b, "B")->gain;
  EXPECT_NEAR(gain.at_most.value(), 3, 1e-9);
  EXPECT_NEAR(gain.low.value(), 2, 1e-9);
  EXPECT_NEAR(gain.high.value(), 3, 1e-9);
}

// Those that --target selects, and whom they wait for.
TEST(BottlenecksTest, OnlyWhatTheSelectedThreadsWaitFor) {
  Program program;
  const uint32_t a = program.Add("a"), b = program.Add("b"), other = program.Add("other");
  program.Wait(a, profd::v1::REASON_LOCK, 30, By(b));
  program.Run(b, "B", 30);
  program.Run(other, "Other", 30);
  EXPECT_THAT(Find(program).knots, SizeIs(2));
  const BottleneckReport report = Find(program, {.groups = {a}});
  ASSERT_THAT(report.knots, SizeIs(1));
  EXPECT_THAT(report.knots[0].groups, ElementsAre(b));
}

// The interval holds the true bound of drawn programs as often as it says.
TEST(BottlenecksTest, TheIntervalHoldsTheBound) {
  std::mt19937_64 random(5);
  int inside = 0;
  constexpr int kRuns = 2000;
  for (int i = 0; i < kRuns; i++) {
    const auto drawn = [&](double value) { return std::normal_distribution<>(value, 0.5)(random); };
    Program program;
    const uint32_t a = program.Add("a"), b = program.Add("b");
    const double variance = 0.25 * kS * kS;
    program.Run(a, "A", drawn(10)).variance = variance;
    program.Wait(a, profd::v1::REASON_LOCK, drawn(20), By(b)).variance = variance;
    program.Run(b, "B", drawn(30)).variance = variance;
    const Gain gain = At(Find(program), b, "B")->gain;
    if (*gain.low <= 3 && 3 <= *gain.high) inside++;
  }
  EXPECT_NEAR(inside / static_cast<double>(kRuns), 0.95, 0.02);  // 4 SE
}

// Whatever the groups do, every sum holds, and no gain is below 1 or outside its interval.
TEST(BottlenecksTest, RandomProgramsAddUp) {
  std::mt19937 random(13);
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  for (int i = 0; i < 200; i++) {
    Program program;
    const uint32_t groups = 1 + below(8);
    for (uint32_t g = 0; g < groups; g++) program.Add("g" + std::to_string(g), 1 + below(3));
    for (uint32_t s = below(50); s > 0; s--) {
      const std::string function = "f" + std::to_string(below(5));
      const double seconds = below(300) / 100.0;
      const uint32_t group = below(groups);
      switch (below(4)) {
        case 0:
          program.Run(group, function, seconds).variance = 0.01 * kS * kS;
          break;
        case 1:
          Nap(program, group, function, seconds);
          break;
        case 2:
          program.Wait(group, profd::v1::REASON_NET, seconds, ByNobody());
          break;
        default:
          program.Wait(group, profd::v1::REASON_LOCK, seconds, By(below(groups), function));
      }
    }
    const BottleneckReport report = Find(program);
    ExpectAddsUp(report.graph);
    EXPECT_FALSE(FindKnots(report.graph).empty());
    for (const KnotReport& knot : report.knots) {
      for (const Bottleneck& bottleneck : knot.bottlenecks) {
        const Gain& gain = bottleneck.gain;
        if (!gain.at_most) continue;
        EXPECT_GE(*gain.at_most, 1);
        EXPECT_LE(*gain.low, *gain.at_most);
        if (gain.high) EXPECT_GE(*gain.high, *gain.at_most);
      }
    }
  }
}

}  // namespace
}  // namespace profctl
