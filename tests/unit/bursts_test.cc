// What bursts of tracing stand for, by known arithmetic and by simulation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "daemon/profile/estimator.h"
#include "daemon/source/burst_estimate.h"
#include "daemon/source/malloc_knob.h"
#include "daemon/source/tick_schedule.h"

namespace profd {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kLength = 20 * kMs;
constexpr int64_t kSpan = 5 * kSecond;

// A thread that ran into probes from the begin of a burst to its end, without a wait.
profd_malloc_thread Runs() {
  profd_malloc_thread did{};
  did.calls = 1000;
  did.first_ns = 5 * kSecond;
  did.last_ns = did.first_ns + kLength;
  return did;
}

TEST(BurstEffectTest, OfAThreadThatRunsAllTheTime) {
  EXPECT_DOUBLE_EQ(EffectOf(Runs(), kLength, 0).correction, 1);
  EXPECT_DOUBLE_EQ(EffectOf(Runs(), kLength, 0).doubt, 0);
  EXPECT_DOUBLE_EQ(EffectOf(Runs(), kLength, 5 * kMs).correction, 20.0 / 15);
  EXPECT_DOUBLE_EQ(EffectOf(Runs(), kLength, 5 * kMs).doubt, 0.25 / 3);
}

TEST(BurstEffectTest, OfOneThatIsWithoutACpuForHalfOfTheTime) {
  profd_malloc_thread did = Runs();
  did.queued_ns = 10 * kMs;
  EXPECT_DOUBLE_EQ(EffectOf(did, kLength, 5 * kMs).correction, 10.0 / 5);
  EXPECT_DOUBLE_EQ(EffectOf(did, kLength, 5 * kMs).doubt, 0.35);
  // Nor had it one in the last quarter.
  did = Runs();
  did.last_ns -= 5 * kMs;
  EXPECT_DOUBLE_EQ(EffectOf(did, kLength, 5 * kMs).correction, 15.0 / 10);
}

TEST(BurstEffectTest, TimeInWhichItWaitsMakesUpForTheProbes) {
  profd_malloc_thread did = Runs();
  did.waited_ns = 10 * kMs;
  EXPECT_DOUBLE_EQ(EffectOf(did, kLength, 10 * kMs).correction, 1);
  EXPECT_DOUBLE_EQ(EffectOf(did, kLength, 10 * kMs).doubt, 0.58 / 2);
  EXPECT_DOUBLE_EQ(EffectOf(did, kLength, 15 * kMs).correction, 20.0 / 15);
  // Some calls close together: it waits before and after.
  did = Runs();
  did.calls = 10;
  did.waited_ns = kMs / 2;
  did.last_ns = did.first_ns + kMs;
  EXPECT_DOUBLE_EQ(EffectOf(did, kLength, kMs).correction, 1);
}

TEST(BurstEffectTest, IsBounded) {
  EXPECT_DOUBLE_EQ(EffectOf(Runs(), kLength, 1000 * kMs).correction, 10);
  EXPECT_DOUBLE_EQ(EffectOf(Runs(), kLength, -5).correction, 1);
  profd_malloc_thread did = Runs();
  did.last_ns = 0;  // before the first
  did.queued_ns = ~0ULL;
  did.waited_ns = ~0ULL;
  EXPECT_DOUBLE_EQ(EffectOf(did, kLength, kMs).correction, 1);
  did = Runs();
  did.queued_ns = ~0ULL;
  EXPECT_DOUBLE_EQ(EffectOf(did, kLength, kMs).correction, 1);
}

CounterEntry Entry(uint64_t thread, uint64_t stack, Kind kind, uint64_t weight, uint64_t count) {
  return {{.thread_id = thread,
           .stack = stack,
           .arg0 = PROFD_BURST_ARGUMENT,
           .sysno = -1,
           .reason = 0,
           .kind = static_cast<uint8_t>(kind),
           .pad = {}},
          {.weight = weight, .count = count}};
}

BurstResult Result() {
  BurstResult burst;
  burst.length_ns = kLength;
  burst.span_ns = kSpan;
  burst.standing_ns = 2 * kLength;
  return burst;
}

// Half of the time that it stands for had no burst of its own.
TEST(EstimateBurstTest, TimeOfMissedBurstsIsInDoubt) {
  const auto doubt = [](int64_t skipped_ns) {
    BurstResult burst = Result();
    burst.skipped_ns = skipped_ns;
    profd_malloc_thread did = Runs();
    did.allocated = 1'000'000;
    did.allocations = 10;
    did.calls = 10;
    burst.counts.threads = {{7, did}};
    ProfileDelta delta;
    std::map<WatchId, AllocatorTotals> totals;
    EstimateBurst(burst, delta, totals);
    const HeapDelta& heap = delta.ledgers.at(0).delta.allocated;
    return static_cast<double>(heap.burst_doubt) / static_cast<double>(heap.burst_bytes);
  };
  EXPECT_NEAR(doubt(kSpan / 2) - doubt(0), 0.29, 1e-3);
}

TEST(EstimateBurstTest, CountsAreScaledAndDividedAmongStacks) {
  BurstResult burst = Result();
  burst.process_weight = 2;
  profd_malloc_thread did = Runs();
  did.allocated = 1000;
  did.freed = 600;
  did.allocations = 10;
  did.frees = 3;
  did.calls = 14;
  did.stepped = 4;
  did.ns = 4'960'000;
  did.watch_id = 9;
  burst.counts.threads = {{7, did}};
  // Of a sample of the calls: their weights tell shares only.
  burst.counts.samples = {Entry(7, 1, Kind::kAlloc, 600, 5), Entry(7, 2, Kind::kAlloc, 200, 1),
                          Entry(8, 3, Kind::kAlloc, 50, 1)};
  burst.traps = {.emulated = 2'000, .stepped = 5'000};  // 5 ms with the program's
  ProfileDelta delta;
  std::map<WatchId, AllocatorTotals> totals;
  EstimateBurst(burst, delta, totals);

  EXPECT_EQ(delta.bursts, 1);
  EXPECT_EQ(delta.burst_ns, kLength);
  EXPECT_EQ(delta.burst_span_ns, kSpan);
  // 250 times as long, twice as many processes, 20 ms of which 15 were left.
  const double scale = 250 * 2 * 20.0 / 15;
  ASSERT_THAT(delta.samples, SizeIs(3));
  EXPECT_EQ(delta.samples[0].weight, std::llround(750 * scale));
  EXPECT_EQ(delta.samples[0].ticks, 5);
  EXPECT_EQ(delta.samples[1].weight, std::llround(250 * scale));
  EXPECT_EQ(delta.samples[2].weight, std::llround(600 * scale)) << "no stack was taken";
  EXPECT_EQ(delta.samples[2].key.stack, StackId{});
  EXPECT_EQ(delta.samples[2].key.kind, Kind::kFree);
  for (const Sample& sample : delta.samples) {
    EXPECT_TRUE(IsFromBursts(sample.key));
    EXPECT_EQ(sample.key.thread, ThreadId{7});
  }
  ASSERT_THAT(delta.ledgers, SizeIs(1));
  const LedgerDelta& ledger = delta.ledgers[0].delta;
  EXPECT_EQ(ledger.allocated.burst_bytes, delta.samples[0].weight + delta.samples[1].weight);
  EXPECT_EQ(ledger.allocated.burst_calls, 10);
  EXPECT_NEAR(static_cast<double>(ledger.allocated.burst_doubt), 1000 * scale * 0.25 / 3, 2);
  EXPECT_EQ(ledger.allocated.bytes, 0) << "nothing of it is exact";
  EXPECT_EQ(ledger.freed.burst_bytes, delta.samples[2].weight);
  EXPECT_EQ(totals.at(WatchId{9}).allocated.burst_bytes, ledger.allocated.burst_bytes);
}

TEST(EstimateBurstTest, NothingCountedIsABurstAllTheSame) {
  ProfileDelta delta;
  std::map<WatchId, AllocatorTotals> totals;
  EstimateBurst(Result(), delta, totals);
  EXPECT_EQ(delta.bursts, 1);
  EXPECT_THAT(delta.samples, IsEmpty());
  EXPECT_THAT(totals, IsEmpty());
}

Sample Merged(int64_t weight, double squares) {
  return {.key = {.thread = ThreadId{1},
                  .stack = StackId{2},
                  .argument = PROFD_BURST_ARGUMENT,
                  .kind = Kind::kAlloc},
          .weight = weight,
          .ticks = 4,
          .squares = squares};
}

TEST(EstimateBurstsTest, ErrorIsThatBetweenBursts) {
  // 10, 20 and 30 in three bursts: the standard deviation is 10, of the sum 10 * sqrt(3).
  const std::vector<Sample> samples = {Merged(60, 1400), Merged(60, 1200)};
  const auto estimates = EstimateBursts(samples, {.burst_bytes = 60}, 3);
  ASSERT_THAT(estimates, SizeIs(2));
  EXPECT_EQ(estimates[0].amount, 60);
  EXPECT_NEAR(static_cast<double>(estimates[0].error), 10 * std::sqrt(3) * 4.303 / kNormal95, 1);
  EXPECT_EQ(estimates[1].error, 0) << "20 in each";
}

TEST(EstimateBurstsTest, OneBurstTellsNoError) {
  const std::vector<Sample> samples = {Merged(60, 3600)};
  EXPECT_EQ(EstimateBursts(samples, {.burst_bytes = 60}, 1)[0].error, 60);
}

TEST(EstimateBurstsTest, WhatTheProbesDidIsInDoubt) {
  const std::vector<Sample> samples = {Merged(3'000'000, 9e12 / 100)};
  const auto estimates =
      EstimateBursts(samples, {.burst_bytes = 6'000'000, .burst_doubt = 600'000}, 100);
  EXPECT_NEAR(static_cast<double>(estimates[0].error), 300'000, 10);
}

TEST(StudentTest, WidensFewBursts) {
  EXPECT_NEAR(StudentWidening(1), 12.706 / kNormal95, 1e-9);
  EXPECT_NEAR(StudentWidening(11), 2.201 / kNormal95, 2e-3);
  EXPECT_NEAR(StudentWidening(30), 2.042 / kNormal95, 1e-3);
  EXPECT_NEAR(StudentWidening(1'000'000), 1, 1e-5);
  EXPECT_EQ(StudentWidening(0), 1);
  for (int64_t n = 1; n < 40; ++n) EXPECT_GT(StudentWidening(n), StudentWidening(n + 1)) << n;
}

// A thread that runs all the time in phases: in one it allocates at one place, then at another one,
// or at none. Rates are bytes per ns of its own time.
class Program {
 public:
  Program(uint64_t seed, double mean_phase_ns) : random_(seed), phase_(1 / mean_phase_ns) {}

  // What it allocates at place 0 and 1 in the next `ns` of its own time.
  std::vector<double> Run(double ns) {
    std::vector<double> bytes(2);
    while (ns > 0) {
      if (left_ <= 0) {
        place_ = static_cast<int>(random_() % 3);
        left_ = phase_(random_);
      }
      const double step = std::min(ns, left_);
      if (place_ < 2) bytes[static_cast<size_t>(place_)] += step * (place_ == 0 ? 1.0 : 0.1);
      ns -= step;
      left_ -= step;
    }
    return bytes;
  }

 private:
  std::mt19937_64 random_;
  std::exponential_distribution<double> phase_;
  double left_ = 0;
  int place_ = 2;
};

struct Coverage {
  double mean = 0;     // estimates over truths
  double error = 0;    // of that, one standard error
  double covered = 0;  // share of the intervals that hold the truth
};

// Windows of `bursts` strata, in each of which one burst is at a random place. In a burst the
// probes take `taken` ns of each ns that the thread runs.
std::vector<Coverage> Simulate(int bursts, double taken, double mean_phase_ns, int windows) {
  std::vector<double> sums(2), squares(2), truths(2), covered(2);
  for (int w = 0; w < windows; ++w) {
    const auto seed = static_cast<uint64_t>(w + 1);
    Program program(seed, mean_phase_ns);
    TickSchedule schedule(kSpan, 0, seed);
    ProfileDelta delta;
    std::map<WatchId, AllocatorTotals> totals;
    std::vector<double> truth(2), weight(2), square(2);
    HeapDelta heap;
    double now = 0;
    const auto run = [&](double wall, double own) {
      const std::vector<double> bytes = program.Run(own);
      for (size_t i = 0; i < 2; ++i) truth[i] += bytes[i];
      now += wall;
      return bytes;
    };
    for (int b = 0; b < bursts; ++b) {
      const auto begin = static_cast<double>(schedule.next_ns());
      if (begin > now) run(begin - now, begin - now);
      const double own = static_cast<double>(kLength) / (1 + taken);
      const std::vector<double> seen = run(static_cast<double>(kLength), own);
      BurstResult burst = Result();
      profd_malloc_thread did = Runs();
      did.allocated = static_cast<uint64_t>(seen[0] + seen[1]);
      did.ns = static_cast<uint64_t>(static_cast<double>(kLength) - own);
      burst.counts.threads = {{1, did}};
      for (size_t i = 0; i < 2; ++i) {
        if (seen[i] >= 1) {
          burst.counts.samples.push_back(
              Entry(1, i + 1, Kind::kAlloc, static_cast<uint64_t>(seen[i]), 1));
        }
      }
      ProfileDelta one;
      EstimateBurst(burst, one, totals);
      for (const Sample& sample : one.samples) {
        const size_t i = static_cast<uint64_t>(sample.key.stack) - 1;
        if (i > 1) continue;
        weight[i] += static_cast<double>(sample.weight);
        square[i] += std::pow(static_cast<double>(sample.weight), 2);
      }
      for (const ThreadLedger& ledger : one.ledgers) AddHeap(ledger.delta.allocated, &heap);
      schedule.Advance(static_cast<int64_t>(now));
    }
    const double rest = static_cast<double>(bursts * kSpan) - now;
    if (rest > 0) run(rest, rest);
    for (size_t i = 0; i < 2; ++i) {
      Sample sample = Merged(std::llround(weight[i]), square[i]);
      const EstimatedSample estimate = EstimateBursts({&sample, 1}, heap, bursts)[0];
      // What the thread did not do while the probes took its time is not missing from the estimate.
      const double lost = static_cast<double>(kLength) * (1 - 1 / (1 + taken)) * bursts;
      const double whole = truth[i] * (1 + lost / (static_cast<double>(bursts * kSpan) - lost));
      sums[i] += weight[i];
      truths[i] += whole;
      squares[i] += std::pow(weight[i] - whole, 2);
      covered[i] +=
          std::abs(weight[i] - whole) <= kNormal95 * static_cast<double>(estimate.error) ? 1 : 0;
    }
  }
  std::vector<Coverage> results;
  for (size_t i = 0; i < 2; ++i) {
    results.push_back({.mean = sums[i] / truths[i],
                       .error = std::sqrt(squares[i]) / truths[i],
                       .covered = covered[i] / windows});
  }
  return results;
}

void ExpectHonest(const std::vector<Coverage>& results) {
  ASSERT_FALSE(results.empty());
  for (const Coverage& result : results) {
    EXPECT_NEAR(result.mean, 1, 4 * result.error);
    EXPECT_GE(result.covered, 0.9);
  }
}

TEST(BurstSimulationTest, ShortPhases) { ExpectHonest(Simulate(12, 0, 3.0 * kMs, 400)); }
TEST(BurstSimulationTest, PhasesAsLongAsABurst) { ExpectHonest(Simulate(12, 0, 20.0 * kMs, 400)); }
TEST(BurstSimulationTest, ManyBursts) { ExpectHonest(Simulate(60, 0, 10.0 * kMs, 200)); }
TEST(BurstSimulationTest, ProbesThatTakeHalfOfTheTime) {
  ExpectHonest(Simulate(12, 1, 3.0 * kMs, 400));
}

TEST(MallocKnobTest, CostGoesWithTheTimeThatProbesStand) {
  MallocKnob source({.length_ns = kLength, .interval_ns = kSpan});
  EXPECT_EQ(source.payer(), Payer::kTarget);
  EXPECT_EQ(source.CostAt(0), 0) << "no burst yet";
  // 10,000 calls, a third of them dearer, in 40 ms: 20 before and after the burst.
  const profd_malloc_cost cost = {.calls = 10'000, .stepped = 4'000, .ns = 6'000'000};
  const Traps traps = {.emulated = 1'000, .stepped = 2'000};
  EXPECT_DOUBLE_EQ(MallocKnob::InPathNs(cost, traps), 6e6 + 6e6 + 8e6);
  source.Learn({}, {}, traps);
  EXPECT_EQ(source.CostAt(0), 0) << "no burst yet";
  source.Learn(std::vector{Result()}, cost, traps);
  EXPECT_DOUBLE_EQ(source.CostAt(0), 0.02 / 5);
  // In two bursts, of which one met no calls, there are half as many.
  MallocKnob other({.length_ns = kLength, .interval_ns = kSpan});
  other.Learn(std::vector{Result(), Result()}, cost, traps);
  EXPECT_DOUBLE_EQ(other.CostAt(0), 0.01 / 5);
  EXPECT_DOUBLE_EQ(source.CostAt(1), 0.5 * 0.03 / 5);
  for (int level = 1; level < source.levels(); ++level) {
    EXPECT_LT(source.CostAt(level), source.CostAt(level - 1));
  }
  EXPECT_THAT(source.GivenUpAt(0), IsEmpty());
  EXPECT_EQ(source.GivenUpAt(1),
            "glibc's malloc is traced for 10 ms every 5 s instead of 20 ms every 5 s");
  EXPECT_EQ(source.GivenUpAt(source.levels() - 1), "allocations and frees of glibc's malloc");
  EXPECT_EQ(source.PlanAt(0), (BurstPlan{.length_ns = kLength, .interval_ns = kSpan}));
  EXPECT_EQ(source.PlanAt(3).length_ns, 2 * kMs);
  EXPECT_EQ(source.PlanAt(4).interval_ns, 4 * kSpan);
  EXPECT_EQ(source.PlanAt(source.levels() - 1).interval_ns, 0);
  EXPECT_EQ(source.CostAt(source.levels() - 1), 0);
  // Without bursts what they cost is forgotten.
  source.PassWithout(120);
  EXPECT_NEAR(source.CostAt(0), 0.01 / 5, 1e-9);
}

}  // namespace
}  // namespace profd
