#include "daemon/profile/estimator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <utility>

#include "tests/support/machine.h"

namespace profd {
namespace {

constexpr ThreadId kThread{7};
constexpr int64_t kMs = 1'000'000;
constexpr int64_t kTick = 10 * kMs;

size_t Index(Reason reason) { return static_cast<size_t>(reason); }

Sample MakeSample(uint64_t stack, Reason reason, int64_t ticks, int64_t interval = kTick) {
  return {{.thread = kThread, .stack = StackId{stack}, .syscall = 202, .reason = reason},
          ticks * interval,
          ticks};
}

const EstimatedSample* Find(const EstimatedThread& t, uint64_t stack, Reason reason) {
  for (const EstimatedSample& s : t.samples) {
    if (s.key.stack == StackId{stack} && s.key.reason == reason) return &s;
  }
  return nullptr;
}

int64_t SumOfParts(const LedgerDelta& l) {
  return std::accumulate(l.off_ns.begin(), l.off_ns.end(), l.on_cpu_ns + l.unattributed_ns);
}

TEST(WilsonIntervalTest, KnownValues) {
  // p = 0.5, n = 100: 0.5 +- 0.0962 (Brown, Cai, DasGupta 2001, the score interval).
  const Interval half = WilsonInterval(0.5, 100);
  EXPECT_NEAR(half.low, 0.4038, 1e-4);
  EXPECT_NEAR(half.high, 0.5962, 1e-4);
  const Interval none = WilsonInterval(0, 10);
  EXPECT_NEAR(none.low, 0, 1e-12);
  EXPECT_NEAR(none.high, 0.2775, 1e-4);
  const Interval all = WilsonInterval(1, 10);
  EXPECT_NEAR(all.low, 0.7225, 1e-4);
  EXPECT_DOUBLE_EQ(all.high, 1);
}

TEST(WilsonIntervalTest, HostileInput) {
  for (double n : {0.0, -1.0, std::nan("")}) {
    EXPECT_EQ(WilsonInterval(0.5, n).low, 0);
    EXPECT_EQ(WilsonInterval(0.5, n).high, 1);
  }
  EXPECT_GE(WilsonInterval(-3, 5).low, 0);
  EXPECT_LE(WilsonInterval(3, 5).high, 1);
}

TEST(ShareErrorTest, NeverZeroAndNeverBelowTheBinomial) {
  EXPECT_GT(ShareError(1, 1000), 0);
  EXPECT_GT(ShareError(0, 1000), 0);
  for (double n : {1.0, 4.0, 100.0, 1e6}) {
    for (double p : {0.01, 0.3, 0.5, 0.99}) {
      EXPECT_GE(ShareError(p, n), std::sqrt(p * (1 - p) / n));
      EXPECT_LT(ShareError(p, n), 1.3 * std::sqrt(p * (1 - p) / n) + 1 / n);
    }
  }
}

TEST(EstimateTest, ScalesWeightsToTheLedger) {
  LedgerDelta ledger;
  ledger.off_ns[Index(Reason::kLock)] = 1000 * kMs;
  ledger.off_ns[Index(Reason::kSleep)] = 500 * kMs + 1;
  ledger.on_cpu_ns = 3 * kMs;
  ledger.wall_ns = 1503 * kMs + 1;
  const std::vector<Sample> samples = {MakeSample(1, Reason::kLock, 30),
                                       MakeSample(3, Reason::kSleep, 49),
                                       MakeSample(2, Reason::kLock, 60)};
  const EstimatedThread t = EstimateThread(kThread, ledger, samples, {});
  ASSERT_EQ(t.samples.size(), 3u);
  const EstimatedSample* one = Find(t, 1, Reason::kLock);
  const EstimatedSample* two = Find(t, 2, Reason::kLock);
  EXPECT_NEAR(one->amount, 1000.0 * kMs / 3, 1);
  EXPECT_EQ(one->amount + two->amount, 1000 * kMs) << "parts sum to the ledger exactly";
  EXPECT_EQ(Find(t, 3, Reason::kSleep)->amount, 500 * kMs + 1);
  EXPECT_EQ(one->weight, 300 * kMs);
  EXPECT_EQ(one->ticks, 30);
  EXPECT_NEAR(one->error, 1000.0 * kMs * std::sqrt(1.0 / 3 * 2 / 3 / 90), 10.0 * kMs);
  EXPECT_GT(Find(t, 3, Reason::kSleep)->error, 0) << "a single stack is not certain";
  EXPECT_EQ(t.ticks[Index(Reason::kLock)], 90);
  EXPECT_EQ(t.estimated_ns, 0);
  EXPECT_EQ(t.ledger.wall_ns, SumOfParts(t.ledger));
}

Sample HeapSample(uint64_t stack, int64_t weight, int64_t events) {
  return {.key = {.thread = kThread, .stack = StackId{stack}, .kind = Kind::kAlloc},
          .weight = weight,
          .ticks = events};
}

TEST(EstimateHeapTest, DividesTheCounterByTheWeights) {
  // The counter has a little more than the events: what came after the last one.
  const std::vector<Sample> samples = {HeapSample(1, 300'000, 4), HeapSample(2, 600'000, 8)};
  const std::vector<EstimatedSample> found =
      EstimateHeap(kThread, Kind::kAlloc, {.bytes = 900'001}, samples);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_NEAR(found[0].amount, 300'000, 1);
  EXPECT_EQ(found[0].amount + found[1].amount, 900'001) << "to the byte";
  EXPECT_EQ(found[0].weight, 300'000);
  EXPECT_EQ(found[1].ticks, 8);
  EXPECT_EQ(found[0].key.kind, Kind::kAlloc);
  // 12 events of equal weight: sqrt(1/3 * 2/3 / 12), and a little more for there being so few.
  EXPECT_NEAR(found[0].error, 900'001 * std::sqrt(2.0 / 9 / 12), 15'000);
}

Sample CallSample(int64_t weight, int64_t calls, uint64_t one_in) {
  return {
      .key = {.thread = kThread, .stack = StackId{1}, .argument = one_in, .kind = Kind::kMapped},
      .weight = weight,
      .ticks = calls};
}

TEST(EstimateMappingsTest, ExactWhereAllCallsWereCounted) {
  const std::vector<Sample> samples = {CallSample(8'192, 2, 1), CallSample(40'000, 10, 4),
                                       CallSample(-5, 3, 16), CallSample(7, 0, 64)};
  const std::vector<EstimatedSample> found = EstimateMappings(samples);
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[0].amount, 8'192);
  EXPECT_EQ(found[0].error, 0);
  EXPECT_EQ(found[0].ticks, 2);
  EXPECT_EQ(found[1].amount, 40'000);
  EXPECT_NEAR(found[1].error, 40'000 * std::sqrt(0.75 / 10), 1);
  EXPECT_EQ(found[2].amount, 0) << "a damaged one";
  EXPECT_EQ(found[3].error, 0);
}

// One call in 16 of 3,000 of one size: the 95 % interval holds as often as it says.
TEST(EstimateMappingsTest, TheIntervalHolds) {
  std::mt19937_64 random(7);
  constexpr int kRuns = 1'000, kCalls = 3'000;
  constexpr int64_t kOneIn = 16, kBytes = 4'096;
  int holds = 0;
  double mean = 0;
  for (int run = 0; run < kRuns; run++) {
    int64_t counted = 0;
    for (int call = 0; call < kCalls; call++) counted += random() % kOneIn == 0 ? 1 : 0;
    const std::vector<Sample> samples = {CallSample(counted * kOneIn * kBytes, counted, kOneIn)};
    const EstimatedSample estimate = EstimateMappings(samples).at(0);
    const auto off = static_cast<double>(estimate.amount - kCalls * kBytes);
    holds += std::abs(off) <= kNormal95 * static_cast<double>(estimate.error) ? 1 : 0;
    mean += off / kRuns;
  }
  EXPECT_LT(std::abs(mean), 0.01 * kCalls * kBytes);
  EXPECT_GE(holds, kRuns * 93 / 100);
  EXPECT_LE(holds, kRuns * 97 / 100);
}

// A thread of the process had no event: its bytes may be any stack's.
TEST(EstimateHeapTest, WhatNobodySawIsPartOfTheError) {
  const std::vector<Sample> samples = {HeapSample(1, 300'000, 4), HeapSample(2, 600'000, 8)};
  EXPECT_EQ(UnsampledHeap({.bytes = 7}, samples), 0);
  EXPECT_EQ(UnsampledHeap({.bytes = 7}, {}), 7);
  EXPECT_EQ(UnsampledHeap({.bytes = -7}, {}), 0);
  const auto found = EstimateHeap(kThread, Kind::kAlloc, {.bytes = 900'000}, samples, 50'000'000);
  for (const EstimatedSample& s : found) {
    EXPECT_GE(kNormal95 * static_cast<double>(s.error), 50e6);
    EXPECT_LE(kNormal95 * static_cast<double>(s.error), 51e6);
  }
}

TEST(EstimateHeapTest, WithoutEventsNothingIsGuessed) {
  const std::vector<EstimatedSample> found =
      EstimateHeap(kThread, Kind::kFree, {.bytes = 5'000}, {});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].key.stack, StackId{});
  EXPECT_EQ(found[0].key.kind, Kind::kFree);
  EXPECT_EQ(found[0].amount, 5'000);
  EXPECT_TRUE(EstimateHeap(kThread, Kind::kFree, {}, {}).empty());
  EXPECT_TRUE(EstimateHeap(kThread, Kind::kFree, {.bytes = -7}, {}).empty());
}

TEST(EstimateHeapTest, HostileWeightsAreSurvived) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  const std::vector<Sample> samples = {HeapSample(1, kMax, 1), HeapSample(2, kMax, -3),
                                       HeapSample(3, -1, 0)};
  int64_t sum = 0;
  for (const EstimatedSample& s : EstimateHeap(kThread, Kind::kAlloc, {.bytes = kMax}, samples)) {
    EXPECT_GE(s.amount, 0);
    EXPECT_GE(s.error, 0);
    sum += s.amount;
  }
  EXPECT_EQ(sum, kMax);
}

// A program that allocates at random among places of these sizes, each with this share of the
// bytes, from an allocator that has its event whenever 64 KiB were passed.
class Mix {
 public:
  struct Site {
    int64_t size;
    double share;
  };
  explicit Mix(std::vector<Site> sites) : sites_(std::move(sites)), random_(5) {
    std::vector<double> calls;
    for (const Site& site : sites_) calls.push_back(site.share / static_cast<double>(site.size));
    which_ = std::discrete_distribution<size_t>(calls.begin(), calls.end());
  }

  // Until `events` were had: as the kernel counts them.
  void Run(int events) {
    truth.assign(sites_.size(), 0);
    heap = {};
    std::map<std::pair<size_t, bool>, Sample> seen;
    for (int64_t last = 0; heap.events < events;) {
      const size_t site = which_(random_);
      truth[site] += sites_[site].size;
      heap.bytes += sites_[site].size;
      if (heap.bytes - last < PROFD_HEAP_INTERVAL) continue;
      const int64_t intervals = (heap.bytes - last) / PROFD_HEAP_INTERVAL;
      Sample& sample = seen[{site, intervals > 1}];
      sample.key = {.thread = kThread,
                    .stack = StackId{site + 1},
                    .argument = intervals > 1 ? uint64_t{PROFD_HEAP_LARGE_ARGUMENT} : 0,
                    .kind = Kind::kAlloc};
      sample.weight += intervals * PROFD_HEAP_INTERVAL;
      sample.ticks++;
      last = heap.seen_bytes = heap.bytes;
      heap.events++;
    }
    samples.clear();
    for (const auto& [key, sample] : seen) samples.push_back(sample);
  }
  std::vector<EstimatedSample> Estimate() const {
    return EstimateHeap(kThread, Kind::kAlloc, heap, samples);
  }
  // The estimate by site, as a share of the truth.
  std::vector<double> OfTruth() const {
    std::vector<double> found(sites_.size(), 0);
    for (const EstimatedSample& e : Estimate()) {
      const size_t site = static_cast<size_t>(e.key.stack) - 1;
      found[site] = static_cast<double>(e.amount) / static_cast<double>(truth[site]);
    }
    return found;
  }

  std::vector<int64_t> truth;
  HeapDelta heap;
  std::vector<Sample> samples;

 private:
  const std::vector<Site> sites_;
  std::mt19937_64 random_;
  std::discrete_distribution<size_t> which_;
};

// 10,000 events: a site of a tenth of the bytes is known to 3 % (one standard error).
TEST(EstimateHeapTest, SitesOfAllSizesGetTheirShare) {
  Mix five({{256, .1}, {400, .2}, {3'000, .3}, {40'000, .25}, {1'000'000, .15}});
  five.Run(10'000);
  for (const double ratio : five.OfTruth()) EXPECT_NEAR(ratio, 1, 0.06);
  Mix three({{256, .3}, {4'096, .3}, {100'000, .4}});
  three.Run(10'000);
  for (const double ratio : three.OfTruth()) EXPECT_NEAR(ratio, 1, 0.06);
}

TEST(EstimateHeapTest, LargeAndOtherEventsOfAStackAreOneSample) {
  Mix mix({{500, .2}, {100'000, .8}});
  mix.Run(1'000);
  ASSERT_EQ(mix.samples.size(), 3U) << "100,000 bytes are one interval, or two";
  const std::vector<EstimatedSample> found = mix.Estimate();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].amount + found[1].amount, mix.heap.bytes);
  EXPECT_EQ(found[0].key.argument, 0U);
  EXPECT_EQ(found[1].key.argument, 0U);
  EXPECT_EQ(found[0].ticks + found[1].ticks, 1'000);
}

// Of sizes that are small against the interval the 95 % interval is one; of others it holds, too,
// as it knows how far allocations went beyond their marks.
TEST(EstimateHeapTest, TheIntervalHolds) {
  constexpr int kRuns = 200;
  // Fewer are found in one of 1,000 such counts, if each holds with 95 %.
  constexpr int kLeast = 181;
  const std::vector<std::vector<Mix::Site>> mixes = {
      {{160, .04}, {480, .125}, {320, .835}},
      {{256, .1}, {400, .2}, {3'000, .3}, {40'000, .25}, {1'000'000, .15}},
      {{256, .3}, {4'096, .3}, {100'000, .4}},
      {{500, .5}, {60'000, .5}},
      {{500, .5}, {70'000, .5}}};
  for (const std::vector<Mix::Site>& sites : mixes) {
    Mix mix(sites);
    std::vector<int> holds(sites.size(), 0);
    for (int run = 0; run < kRuns; run++) {
      mix.Run(100);
      std::vector<bool> told(sites.size(), false);
      for (const EstimatedSample& e : mix.Estimate()) {
        const size_t site = static_cast<size_t>(e.key.stack) - 1;
        const auto off = static_cast<double>(e.amount - mix.truth[site]);
        told[site] = true;
        holds[site] += std::abs(off) <= kNormal95 * static_cast<double>(e.error);
      }
      for (size_t i = 0; i < sites.size(); i++) holds[i] += !told[i] && mix.truth[i] == 0;
    }
    for (size_t i = 0; i < sites.size(); i++) {
      EXPECT_GE(holds[i], kLeast) << sites[i].size << " of " << sites.size();
    }
  }
}

TEST(EstimateTest, TimeWithoutTicksIsUnsampled) {
  LedgerDelta ledger;
  ledger.off_ns[Index(Reason::kFsync)] = 2 * kMs;
  const EstimatedThread t = EstimateThread(kThread, ledger, {}, {});
  ASSERT_EQ(t.samples.size(), 1u);
  EXPECT_EQ(t.samples[0].key.stack, StackId{});
  EXPECT_EQ(t.samples[0].key.thread, kThread);
  EXPECT_EQ(t.samples[0].key.reason, Reason::kFsync);
  EXPECT_EQ(t.samples[0].amount, 2 * kMs);
  EXPECT_EQ(t.samples[0].weight, 0);
}

TEST(EstimateTest, TicksWithoutTimeKeepTheirWeightOnly) {
  LedgerDelta ledger;
  ledger.wall_ns = 0;
  ledger.off_ns[Index(Reason::kPipe)] = -5;
  ledger.on_cpu_ns = 5;
  const EstimatedThread t =
      EstimateThread(kThread, ledger, std::vector{MakeSample(1, Reason::kPipe, 2)}, {});
  ASSERT_EQ(t.samples.size(), 1u);
  EXPECT_EQ(t.samples[0].amount, 0);
  EXPECT_EQ(t.samples[0].weight, 2 * kTick);
  EXPECT_EQ(t.ledger.off_ns[Index(Reason::kPipe)], -5) << "the account stays as it is";
  EXPECT_EQ(t.ledger.wall_ns, SumOfParts(t.ledger));
}

TEST(EstimateTest, UnattributedTimeFollowsTheBlockedWeights) {
  LedgerDelta ledger;
  ledger.unattributed_ns = 900 * kMs + 1;
  ledger.off_ns[Index(Reason::kRunQueue)] = 50 * kMs;
  ledger.on_cpu_ns = 50 * kMs;
  ledger.wall_ns = 1000 * kMs + 1;
  const std::vector<Sample> samples = {
      MakeSample(1, Reason::kRunQueue, 5), MakeSample(2, Reason::kLock, 30),
      MakeSample(3, Reason::kPoll, 40), MakeSample(4, Reason::kPoll, 20)};
  const EstimatedThread t = EstimateThread(kThread, ledger, samples, {});
  EXPECT_EQ(t.estimated_ns, 900 * kMs + 1);
  EXPECT_EQ(t.ledger.unattributed_ns, 0);
  EXPECT_EQ(t.ledger.wall_ns, SumOfParts(t.ledger));
  EXPECT_NEAR(t.ledger.off_ns[Index(Reason::kLock)], 300.0 * kMs, 1);
  EXPECT_NEAR(t.ledger.off_ns[Index(Reason::kPoll)], 600.0 * kMs, 2);
  EXPECT_EQ(t.ledger.off_ns[Index(Reason::kRunQueue)], 50 * kMs) << "the run queue is known";
  EXPECT_NEAR(Find(t, 3, Reason::kPoll)->amount, 400.0 * kMs, 2);
  // The stack's share is one of all blocked ticks, not of its reason's alone.
  EXPECT_NEAR(Find(t, 3, Reason::kPoll)->error, 900.0 * kMs * std::sqrt(4.0 / 9 * 5 / 9 / 90),
              1.0 * kMs);
}

TEST(EstimateTest, UnattributedTimeWithoutTicksIsOther) {
  LedgerDelta ledger;
  ledger.unattributed_ns = ledger.wall_ns = 10 * kMs;
  const EstimatedThread t =
      EstimateThread(kThread, ledger, std::vector{MakeSample(1, Reason::kRunQueue, 1)}, {});
  EXPECT_EQ(t.ledger.off_ns[Index(Reason::kOther)], 10 * kMs);
  const EstimatedSample* unsampled = Find(t, 0, Reason::kOther);
  ASSERT_NE(unsampled, nullptr);
  EXPECT_EQ(unsampled->amount, 10 * kMs);
}

TEST(EstimateTest, WithoutALedgerTimesAreWeights) {
  const std::vector<Sample> samples = {MakeSample(1, Reason::kLock, 30),
                                       MakeSample(2, Reason::kPoll, 100)};
  const EstimatedThread t = EstimateThread(kThread, {}, samples, {.ledger = false, .ticks = 100});
  EXPECT_EQ(Find(t, 1, Reason::kLock)->amount, 300 * kMs);
  EXPECT_NEAR(Find(t, 1, Reason::kLock)->error, kTick * std::sqrt(100 * 0.3 * 0.7), 0.1 * kTick);
  EXPECT_EQ(Find(t, 2, Reason::kPoll)->amount, 1000 * kMs);
  EXPECT_GT(Find(t, 2, Reason::kPoll)->error, 0);
}

TEST(EstimateTest, ExtremeNumbersAreDefined) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max() / 4;
  LedgerDelta ledger;
  ledger.off_ns[Index(Reason::kLock)] = kMax;
  ledger.unattributed_ns = -kMax;
  std::vector<Sample> samples = {MakeSample(1, Reason::kLock, 1), MakeSample(2, Reason::kLock, 0)};
  samples[0].weight = kMax;
  samples[1].weight = -1;
  samples.push_back(samples[0]);
  const EstimatedThread t = EstimateThread(kThread, ledger, samples, {});
  EXPECT_EQ(t.ledger.off_ns[Index(Reason::kLock)], 0);
}

// One state of a simulated thread.
struct State {
  uint64_t stack;  // 0: on-CPU
  Reason reason;
  double mean_ns;  // of its exponential durations
  double chance;   // of being the next
};

struct Simulation {
  LedgerDelta ledger;
  std::map<uint64_t, int64_t> truth;  // by stack
  std::vector<Sample> samples;
};

// A random timeline, and one tick at a uniformly random instant in each stratum of length kTick.
Simulation Simulate(const std::vector<State>& states, int64_t length_ns, std::mt19937_64* random) {
  Simulation sim;
  std::vector<double> chances;
  for (const State& s : states) chances.push_back(s.chance);
  std::discrete_distribution<size_t> choose(chances.begin(), chances.end());
  std::map<uint64_t, int64_t> ticks;
  int64_t begin = 0;
  int64_t stratum = 0;
  int64_t next_tick = std::uniform_int_distribution<int64_t>(0, kTick - 1)(*random);
  while (begin < length_ns) {
    const State& state = states[choose(*random)];
    const auto duration =
        static_cast<int64_t>(std::exponential_distribution<double>(1 / state.mean_ns)(*random));
    const int64_t end = std::min(begin + duration + 1, length_ns);
    if (state.stack == 0) {
      sim.ledger.on_cpu_ns += end - begin;
    } else {
      sim.ledger.off_ns[Index(state.reason)] += end - begin;
      sim.truth[state.stack] += end - begin;
    }
    for (; next_tick < end; stratum++) {
      if (state.stack != 0) ticks[state.stack]++;
      next_tick =
          (stratum + 1) * kTick + std::uniform_int_distribution<int64_t>(0, kTick - 1)(*random);
    }
    begin = end;
  }
  sim.ledger.wall_ns = length_ns;
  for (const State& s : states) {
    if (s.stack != 0 && ticks[s.stack] > 0) {
      sim.samples.push_back(MakeSample(s.stack, s.reason, ticks[s.stack]));
    }
  }
  return sim;
}

struct Coverage {
  double covered = 0;                               // share of intervals that hold the truth
  double mean_error_ns = 0, standard_error_ns = 0;  // of estimate - truth
};

std::map<uint64_t, Coverage> Measure(const std::vector<State>& states, int64_t length_ns,
                                     bool switch_layer) {
#if PROFD_SANITIZED
  constexpr int kRepetitions = 200;
#else
  constexpr int kRepetitions = 1000;
#endif
  std::mt19937_64 random(20240607);
  std::map<uint64_t, Coverage> result;
  std::map<uint64_t, double> sum, squares;
  for (int i = 0; i < kRepetitions; i++) {
    Simulation sim = Simulate(states, length_ns, &random);
    if (!switch_layer) {
      for (size_t r = Index(Reason::kRunQueue) + 1; r < kReasonCount; r++) {
        sim.ledger.unattributed_ns += std::exchange(sim.ledger.off_ns[r], 0);
      }
    }
    const EstimatedThread t = EstimateThread(kThread, sim.ledger, sim.samples, {});
    for (const State& s : states) {
      if (s.stack == 0) continue;
      const EstimatedSample* e = Find(t, s.stack, s.reason);
      const double estimate = e == nullptr ? 0 : static_cast<double>(e->amount);
      const double error = e == nullptr ? 0 : static_cast<double>(e->error);
      const double miss = estimate - static_cast<double>(sim.truth[s.stack]);
      if (std::abs(miss) <= kNormal95 * error) result[s.stack].covered += 1.0 / kRepetitions;
      sum[s.stack] += miss;
      squares[s.stack] += miss * miss;
    }
  }
  for (auto& [stack, c] : result) {
    c.mean_error_ns = sum[stack] / kRepetitions;
    c.standard_error_ns = std::sqrt(squares[stack] / kRepetitions / kRepetitions);
  }
  return result;
}

void ExpectHonest(const std::map<uint64_t, Coverage>& all, size_t stacks) {
  EXPECT_EQ(all.size(), stacks);
  for (const auto& [stack, c] : all) {
    EXPECT_GE(c.covered, 0.93) << "stack " << stack;
    // Four standard errors: the seed is fixed, so this either holds always or never.
    EXPECT_LE(std::abs(c.mean_error_ns), 4 * c.standard_error_ns) << "stack " << stack;
  }
}

// Waits much shorter than a tick, where strata gain nothing: the formula's worst case.
// Poisson sampling: n objects that stand for w bytes each have a standard error of w * sqrt(n).
TEST(EstimateLevelsTest, StandForThemselves) {
  const std::vector<Sample> samples = {
      {{.thread = ThreadId{1}, .stack = StackId{2}, .kind = Kind::kInuse}, 6'400'000, 16, -300},
      {{.thread = ThreadId{1}, .stack = StackId{3}, .kind = Kind::kInuse}, 0, 0, -500},
      {{.thread = ThreadId{1}, .stack = StackId{4}, .kind = Kind::kInuse}, -7, -1, 0}};
  const std::vector<EstimatedSample> levels = EstimateLevels(samples);
  ASSERT_EQ(levels.size(), 3U);
  EXPECT_EQ(levels[0].amount, 6'400'000);
  EXPECT_EQ(levels[0].error, 400'000 * 4);
  EXPECT_EQ(levels[0].ticks, 16);
  EXPECT_EQ(levels[0].growth, -300);
  EXPECT_EQ(levels[1].amount, 0);
  EXPECT_EQ(levels[1].error, 0);
  EXPECT_EQ(levels[1].growth, -500);
  EXPECT_EQ(levels[2].amount, 0) << "damaged";
}

// Of objects it is told how many there are: 10,000 of 1,000 bytes, one byte in 100,000 sampled, are
// known from some 99.5 of them. Those that are always sampled are known exactly.
TEST(EstimateLevelsTest, ErrorOfObjectsIsThatOfTheSampledOnes) {
  const std::vector<Sample> samples = {
      {{.thread = ThreadId{1}, .stack = StackId{2}, .argument = 100'000, .kind = Kind::kInuse},
       10'000'000,
       10'000},
      {{.thread = ThreadId{1}, .stack = StackId{3}, .argument = 100'000, .kind = Kind::kInuse},
       1'000'000'000,
       100}};
  const std::vector<EstimatedSample> levels = EstimateLevels(samples);
  ASSERT_EQ(levels.size(), 2U);
  EXPECT_NEAR(static_cast<double>(levels[0].error), 10'000'000 * std::sqrt(0.99 / 99.5), 1'000);
  EXPECT_EQ(levels[1].error, 0);
}

TEST(CoverageTest, ShortWaits) {
  ExpectHonest(Measure({{0, Reason::kOther, 0.2 * kMs, 0.4},
                        {1, Reason::kLock, 0.3 * kMs, 0.3},
                        {2, Reason::kLock, 0.1 * kMs, 0.2},
                        {3, Reason::kPoll, 0.5 * kMs, 0.1}},
                       5'000 * kMs, true),
               3);
}

TEST(CoverageTest, LongWaits) {
  ExpectHonest(Measure({{0, Reason::kOther, 5.0 * kMs, 0.4},
                        {1, Reason::kLock, 50.0 * kMs, 0.3},
                        {2, Reason::kLock, 20.0 * kMs, 0.3}},
                       10'000 * kMs, true),
               2);
}

TEST(CoverageTest, RareStack) {
  ExpectHonest(Measure({{0, Reason::kOther, 1.0 * kMs, 0.5},
                        {1, Reason::kNet, 1.0 * kMs, 0.46},
                        {2, Reason::kNet, 1.0 * kMs, 0.04}},
                       10'000 * kMs, true),
               2);
}

TEST(CoverageTest, WithoutTheSwitchLayer) {
  ExpectHonest(Measure({{0, Reason::kOther, 0.2 * kMs, 0.4},
                        {1, Reason::kLock, 0.3 * kMs, 0.3},
                        {2, Reason::kDisk, 0.7 * kMs, 0.3}},
                       5'000 * kMs, false),
               2);
}

Sample MakeRun(uint64_t stack, int64_t ticks, int64_t interval = kTick) {
  return {
      {.thread = kThread, .stack = StackId{stack}, .kind = Kind::kCpu}, ticks * interval, ticks};
}

TEST(EstimateRunningTest, SharesOfTheExactTimeWithTheirErrors) {
  // 100 samples of a second on a CPU, which the books say was 900 ms.
  const std::vector<Sample> samples = {MakeRun(1, 75), MakeRun(2, 25)};
  const auto result = EstimateRunning(kThread, {.on_cpu_ns = 900 * kMs}, samples, {});
  ASSERT_EQ(result.size(), 2U);
  EXPECT_EQ(result[0].amount, 675 * kMs);
  EXPECT_EQ(result[1].amount, 225 * kMs);
  // sqrt(0.75 * 0.25 / 100) = 0.0433, of 900 ms.
  for (const EstimatedSample& s : result) EXPECT_NEAR(s.error / 1e6, 38.97, 0.01);
  EXPECT_EQ(result[0].ticks, 75);
}

TEST(EstimateRunningTest, SamplesOfLongerIntervalsWeighMore) {
  // While the rate was halved a sample stood for twice as much.
  const std::vector<Sample> samples = {MakeRun(1, 50), MakeRun(2, 25, 2 * kTick)};
  const auto result = EstimateRunning(kThread, {.on_cpu_ns = 1'000 * kMs}, samples, {});
  EXPECT_EQ(result[0].amount, 500 * kMs);
  EXPECT_EQ(result[1].amount, 500 * kMs);
  // Worth 1 / (0.5^2 / 50 + 0.5^2 / 25) = 66.7 equal samples.
  EXPECT_NEAR(result[0].error / 1e6, 1000 * std::sqrt(0.25 / (200 / 3.0)), 0.1);
}

TEST(EstimateRunningTest, TimeWithoutASampleIsUnsampledWithItsError) {
  const auto result = EstimateRunning(kThread, {.on_cpu_ns = 5 * kMs}, {}, {});
  ASSERT_EQ(result.size(), 1U);
  EXPECT_EQ(result[0].key.stack, StackId{});
  EXPECT_EQ(result[0].key.kind, Kind::kCpu);
  EXPECT_EQ(result[0].amount, 5 * kMs);
  EXPECT_NEAR(static_cast<double>(result[0].error) * kNormal95, 5e6, 2) << "its interval holds 0";
  EXPECT_TRUE(EstimateRunning(kThread, {}, {}, {}).empty());
}

TEST(EstimateRunningTest, WithoutALedgerWeightsAreTimes) {
  const std::vector<Sample> samples = {MakeRun(1, 100)};
  const auto result = EstimateRunning(kThread, {}, samples, {.ledger = false});
  EXPECT_EQ(result[0].amount, 1'000 * kMs);
  EXPECT_EQ(result[0].error, 100 * kMs) << "Poisson: the root of 100 samples";
}

TEST(EstimateRunningTest, NegativeTimeHasNoStacks) {
  const std::vector<Sample> samples = {MakeRun(1, 2)};
  const auto result = EstimateRunning(kThread, {.on_cpu_ns = -3}, samples, {});
  ASSERT_EQ(result.size(), 1U);
  EXPECT_EQ(result[0].amount, 0);
}

int64_t Sum(const std::vector<EstimatedSample>& samples) {
  return std::accumulate(samples.begin(), samples.end(), int64_t{0},
                         [](int64_t sum, const EstimatedSample& s) { return sum + s.amount; });
}

// Estimates of all states of a thread with this ledger sum to its wall time.
void ExpectWall(const LedgerDelta& ledger, const std::vector<Sample>& waits,
                const std::vector<Sample>& runs) {
  const EstimatedThread waited = EstimateThread(kThread, ledger, waits, {});
  const auto all = JoinStates(waited, EstimateRunning(kThread, ledger, runs, {}));
  EXPECT_EQ(Sum(all), ledger.wall_ns);
  for (const EstimatedSample& s : all) EXPECT_GE(s.amount, 0);
}

TEST(JoinStatesTest, SumsToTheWallTime) {
  LedgerDelta ledger;
  ledger.on_cpu_ns = 333'333'333;
  ledger.off_ns[Index(Reason::kRunQueue)] = 77;
  ledger.off_ns[Index(Reason::kLock)] = 123'456'789;
  ledger.unattributed_ns = 1'000'001;
  ledger.wall_ns = SumOfParts(ledger);
  const std::vector<Sample> waits = {MakeSample(1, Reason::kLock, 7),
                                     MakeSample(2, Reason::kLock, 6)};
  const std::vector<Sample> runs = {MakeRun(3, 11), MakeRun(4, 13), MakeRun(5, 9)};
  ExpectWall(ledger, waits, runs);
  ExpectWall(ledger, {}, {});
}

TEST(JoinStatesTest, WhatIsLessThanNothingIsTakenFromTheWidest) {
  LedgerDelta ledger;
  ledger.on_cpu_ns = -20;
  ledger.off_ns[Index(Reason::kLock)] = 1'000'000;
  ledger.off_ns[Index(Reason::kNet)] = -1'000;
  ledger.wall_ns = SumOfParts(ledger);
  ExpectWall(ledger, {MakeSample(1, Reason::kLock, 7), MakeSample(2, Reason::kNet, 1)},
             {MakeRun(3, 1)});
  ledger.off_ns[Index(Reason::kLock)] = 1'000;
  ledger.off_ns[Index(Reason::kSleep)] = 900;
  ledger.wall_ns = SumOfParts(ledger);
  ExpectWall(ledger, {}, {});
}

}  // namespace
}  // namespace profd
