// How many waits for locks there were, from those that ticks saw.
#include "daemon/profile/ended_waits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "daemon/source/samples.h"

namespace profd {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kTick = 10 * kMs;
constexpr ThreadId kThread{1};
constexpr StackId kStack{101};
constexpr uint64_t kLock = 0x1000;
constexpr int32_t kFutex = 202;

// Waits for a lock of one thread, as the kernel counts them.
class Waits {
 public:
  // A wait of `ns` that ended, which ticks saw with a weight.
  void End(int64_t ns, int64_t weight, profd_wait_end end = PROFD_END_WOKEN,
           uint64_t lock = kLock) {
    const auto number = static_cast<uint64_t>((weight * PROFD_ENDED_ONE + ns / 2) / ns);
    profd_sample_key key{};
    key.thread_id = static_cast<uint64_t>(kThread);
    key.stack = static_cast<uint64_t>(kStack);
    key.arg0 = lock;
    key.sysno = PROFD_ENDED(kFutex, profd_duration_bucket(static_cast<uint64_t>(ns)), end);
    key.reason = PROFD_REASON_LOCK;
    key.kind = PROFD_KIND_ENDED;
    counters_.emplace_back(
        key,
        profd_sample_value{.weight = number,
                           .count = (number * number + PROFD_ENDED_ONE / 2) / PROFD_ENDED_ONE});
    weight_ += weight;
  }
  // All waits took `ns`, as the ledger knows.
  EndedThread Estimate(int64_t ns) const {
    EstimatedThread waits;
    SampleKey key = {.thread = kThread, .stack = kStack, .argument = kLock, .syscall = kFutex};
    key.reason = Reason::kLock;
    waits.samples = {{.key = key, .amount = ns, .weight = weight_}};
    return EstimateOf(waits);
  }
  // As the ticks and the ledger know them.
  EndedThread EstimateOf(const EstimatedThread& waits) const {
    ProfileDelta delta;
    AddSamples(std::span<const CounterEntry>(counters_), delta);
    return EstimateEnded(waits, delta.samples, kTick);
  }

 private:
  std::vector<CounterEntry> counters_;
  int64_t weight_ = 0;
};

WaitCount CountOf(const EndedThread& thread) {
  std::vector<const EndedRow*> rows;
  for (const EndedRow& row : thread.rows) rows.push_back(&row);
  WaitCount count;
  count.AddThread(rows, thread);
  return count;
}

TEST(EndedWaitsTest, AKeyHoldsTheCallTheBucketAndTheEnd) {
  for (const int32_t call : {-1, 0, 202, 455}) {
    for (const uint32_t bucket : {0U, 51U}) {
      const int32_t ended = PROFD_ENDED(call, bucket, PROFD_END_SIGNAL);
      EXPECT_EQ(PROFD_ENDED_SYSNO(ended), call);
      EXPECT_EQ(PROFD_ENDED_BUCKET(ended), bucket);
      EXPECT_EQ(PROFD_ENDED_END(ended), uint32_t{PROFD_END_SIGNAL});
    }
  }
}

TEST(EndedWaitsTest, RowsAreThoseOfTheWaits) {
  Waits waits;
  waits.End(5 * kMs, kTick);
  const EndedThread thread = waits.Estimate(kTick);
  ASSERT_THAT(thread.rows, SizeIs(1));
  EXPECT_EQ(thread.rows[0].wait.kind, Kind::kWait);
  EXPECT_EQ(thread.rows[0].wait.stack, kStack);
  EXPECT_EQ(thread.rows[0].wait.argument, kLock);
  EXPECT_EQ(thread.rows[0].wait.syscall, kFutex);
  EXPECT_EQ(thread.rows[0].bucket, profd_duration_bucket(5 * kMs));
  EXPECT_THAT(waits.Estimate(0).rows, IsEmpty()) << "a rate of nothing";
  EXPECT_THAT(Waits().Estimate(kTick).rows, IsEmpty());
}

// Seen by one tick in ten, each stands for ten.
TEST(EndedWaitsTest, AShortWaitStandsForThoseThatNoTickSaw) {
  Waits waits;
  for (int i = 0; i < 6; i++) waits.End(kMs, kTick);
  const WaitCount count = CountOf(waits.Estimate(60 * kMs));
  EXPECT_NEAR(count.waits().value, 60, 0.01);
  // All waits took as long: the exact time says how many there were, but for the width of a bucket.
  EXPECT_LT(count.waits().Error(), 0.2 * std::sqrt(6 * (100 - 10)));
  EXPECT_TRUE(count.ends_known());
  EXPECT_EQ(count.timeouts().value, 0);
}

// The ticks of 40 ms missed the wait by one or saw it once more: its time does not change.
TEST(EndedWaitsTest, TheExactTimeTakesBackWhatTicksSawTooOften) {
  for (const int64_t ticks : {3, 4, 5}) {
    Waits waits;
    waits.End(40 * kMs, ticks * kTick);
    EXPECT_NEAR(CountOf(waits.Estimate(40 * kMs)).waits().value, 1, 0.01);
  }
}

TEST(EndedWaitsTest, EndsAreToldApart) {
  Waits waits;
  for (int i = 0; i < 8; i++) waits.End(20 * kMs, 2 * kTick);
  for (int i = 0; i < 4; i++) waits.End(20 * kMs, 2 * kTick, PROFD_END_TIMEOUT);
  for (int i = 0; i < 2; i++) waits.End(20 * kMs, 2 * kTick, PROFD_END_SIGNAL);
  const WaitCount count = CountOf(waits.Estimate(14 * 20 * kMs));
  EXPECT_NEAR(count.waits().value, 14, 1e-6);
  EXPECT_NEAR(count.timeouts().value, 4, 1e-6);
  EXPECT_NEAR(count.interrupted().value, 2, 1e-6);
  EXPECT_TRUE(count.ends_known());
  waits.End(20 * kMs, 2 * kTick, PROFD_END_UNKNOWN);
  EXPECT_FALSE(CountOf(waits.Estimate(15 * 20 * kMs)).ends_known());
}

// By the number of waits, not by their time: 98 waits of 1 ms, two of 100 ms.
TEST(EndedWaitsTest, QuantilesAreThoseOfAllWaits) {
  Waits waits;
  for (int i = 0; i < 98; i++) waits.End(kMs, kMs);
  for (int i = 0; i < 2; i++) waits.End(100 * kMs, 100 * kMs);
  const WaitCount count = CountOf(waits.Estimate(298 * kMs));
  const WaitQuantile median = count.Quantile(0.5), high = count.Quantile(0.99);
  EXPECT_NEAR(static_cast<double>(median.value_ns), kMs, 0.2 * kMs);
  EXPECT_NEAR(static_cast<double>(high.value_ns), 100 * kMs, 20 * kMs);
  EXPECT_LE(median.low_ns, kMs);
  EXPECT_GT(median.high_ns, kMs);
  EXPECT_LE(high.low_ns, high.value_ns);
  EXPECT_GE(high.high_ns, high.value_ns);
  EXPECT_EQ(WaitCount().Quantile(0.5).value_ns, 0);
  EXPECT_EQ(WaitCount().Quantile(0.5).high_ns, 0);
}

// A thread waits for a second, for two locks, with known waits. Ticks come at random in their
// strata; the kernel counts one wait in `one_in`.
struct Truth {
  double first = 0, second = 0;  // numbers of waits
};
struct Estimated {
  WaitCount first, second;
};
Estimated Simulate(std::mt19937_64* random, uint32_t one_in, Truth* truth) {
  std::uniform_int_distribution<int64_t> in_tick(0, kTick - 1);
  std::vector<int64_t> ticks;
  constexpr int64_t kSpan = 4'000 * kMs;
  for (int64_t begin = 0; begin < kSpan; begin += kTick) ticks.push_back(begin + in_tick(*random));
  constexpr uint64_t kSecondLock = 0x2000;
  constexpr int64_t kLengths[] = {2 * kMs, 5 * kMs, 12 * kMs, 45 * kMs};
  Waits waits;
  int64_t time = 0, weight_of_waits = 0;
  size_t next = 0;
  *truth = {};
  for (int64_t now = in_tick(*random) / 10; now < kSpan - 100 * kMs;) {
    const uint64_t lock = (*random)() % 4 == 0 ? kSecondLock : kLock;
    // The first lock has waits of all lengths, the second of 12 ms.
    const int64_t length = lock == kSecondLock ? 12 * kMs : kLengths[(*random)() % 4];
    (lock == kLock ? truth->first : truth->second)++;
    time += length;
    while (next < ticks.size() && ticks[next] < now) next++;
    int64_t seen = 0;
    while (next < ticks.size() && ticks[next] < now + length) next++, seen++;
    weight_of_waits += seen * kTick;
    if (seen > 0 && (*random)() % one_in == 0) {
      waits.End(length, seen * kTick * one_in, PROFD_END_WOKEN, lock);
    }
    now += length + kMs / 3;
  }
  // The weight of all ticks is known, whatever was counted.
  EstimatedThread all;
  SampleKey key = {.thread = kThread, .reason = Reason::kLock};
  all.samples = {{.key = key, .amount = time, .weight = weight_of_waits}};
  const EndedThread thread = waits.EstimateOf(all);
  std::vector<const EndedRow*> first, second;
  for (const EndedRow& row : thread.rows) {
    (row.wait.argument == kLock ? first : second).push_back(&row);
  }
  Estimated result;
  result.first.AddThread(first, thread);
  result.second.AddThread(second, thread);
  return result;
}

TEST(EndedWaitsTest, NumbersAreUnbiasedAndTheirErrorsHold) {
  for (const uint32_t one_in : {1U, 4U}) {
    std::mt19937_64 random(one_in);
    constexpr int kTries = 600;
    for (const bool second : {false, true}) {
      double sum = 0, squares = 0;
      int within = 0;
      for (int i = 0; i < kTries; i++) {
        Truth truth;
        const Estimated found = Simulate(&random, one_in, &truth);
        const WaitEstimate& estimate = (second ? found.second : found.first).waits();
        const double off = estimate.value - (second ? truth.second : truth.first);
        sum += off;
        squares += off * off;
        within += std::abs(off) <= kNormal95 * estimate.Error() ? 1 : 0;
      }
      const double mean = sum / kTries;
      const double deviation = std::sqrt(squares / kTries - mean * mean);
      // The mean of so many is off by four of its standard errors in one case of 16,000.
      EXPECT_LT(std::abs(mean), 4 * deviation / std::sqrt(kTries)) << one_in << " " << second;
      // 95 %, less what comes of few waits and of the width of buckets.
      EXPECT_GT(within, 0.88 * kTries) << one_in << " " << second;
    }
  }
}

// All waits take as long, so that the exact time takes back all that ticks saw too often. It cannot
// take back which waits were taken, if only some are.
TEST(EndedWaitsTest, TakingOneWaitInSeveralIsPartOfTheError) {
  std::mt19937_64 random(7);
  constexpr int kWaits = 160, kTries = 400;
  for (const uint32_t one_in : {1U, 4U, 16U}) {
    int within = 0;
    double squares = 0, variance = 0;
    for (int i = 0; i < kTries; i++) {
      Waits waits;
      for (int wait = 0; wait < kWaits; wait++) {
        if (random() % one_in == 0) waits.End(20 * kMs, 2 * kTick * one_in);
      }
      EstimatedThread all;
      all.samples = {{.key = {.thread = kThread, .reason = Reason::kLock},
                      .amount = kWaits * 20 * kMs,
                      .weight = kWaits * 2 * kTick,
                      .ticks = kWaits * 2}};
      const WaitEstimate estimate = CountOf(waits.EstimateOf(all)).waits();
      const double off = estimate.value - kWaits;
      squares += off * off;
      variance += estimate.variance;
      within += std::abs(off) <= kNormal95 * estimate.Error() ? 1 : 0;
    }
    if (one_in == 1) {
      EXPECT_EQ(within, kTries);
      EXPECT_LT(std::sqrt(variance / kTries), 1.5);
      continue;
    }
    // Of 160 waits each counts or not: 160 (n - 1) is the variance of their number.
    EXPECT_NEAR(squares / kTries, kWaits * (one_in - 1), 0.3 * kWaits * (one_in - 1)) << one_in;
    EXPECT_NEAR(variance / kTries, kWaits * (one_in - 1), 0.1 * kWaits * (one_in - 1)) << one_in;
    EXPECT_GT(within, (one_in == 4 ? 0.92 : 0.88) * kTries) << one_in;
  }
}

}  // namespace
}  // namespace profd
