#include "daemon/source/tick_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace profd {
namespace {

constexpr int64_t kInterval = 10'000'000;
constexpr int64_t kOrigin = 123'456'789;

int64_t StratumOf(int64_t instant) { return (instant - kOrigin) / kInterval; }

TEST(TickScheduleTest, OneInstantInEveryStratum) {
  TickSchedule schedule(kInterval, kOrigin, 1);
  for (int64_t i = 0; i < 10'000; ++i) {
    ASSERT_GE(schedule.next_ns(), kOrigin);
    ASSERT_EQ(StratumOf(schedule.next_ns()), i);
    schedule.Advance(schedule.next_ns());
  }
  EXPECT_EQ(schedule.missed(), 0);
}

// With the seed fixed the figures are fixed; the bounds are where chance would end in 1 of 1000.
TEST(TickScheduleTest, InstantsAreUniformAndIndependent) {
  constexpr int kTicks = 100'000;
  constexpr int kBins = 50;
  constexpr double kChiSquare49 = 85.35;
  TickSchedule schedule(kInterval, kOrigin, 2);
  std::vector<int> bins(kBins);
  double correlation = 0;
  double last = 0;
  for (int i = 0; i < kTicks; ++i) {
    const int64_t within = (schedule.next_ns() - kOrigin) % kInterval;
    ++bins[static_cast<size_t>(within * kBins / kInterval)];
    const double centred = static_cast<double>(within) / kInterval - 0.5;
    correlation += centred * last * 12 / kTicks;
    last = centred;
    schedule.Advance(schedule.next_ns());
  }
  double chi_square = 0;
  constexpr double kExpected = static_cast<double>(kTicks) / kBins;
  for (const int n : bins) chi_square += (n - kExpected) * (n - kExpected) / kExpected;
  EXPECT_LT(chi_square, kChiSquare49);
  EXPECT_LT(std::abs(correlation), 3.3 / std::sqrt(kTicks));
}

// A tick is held up now and then; every stratum is either ticked in or counted as missed.
TEST(TickScheduleTest, MissedStrataAreCounted) {
  TickSchedule schedule(kInterval, kOrigin, 3);
  std::mt19937_64 random(4);
  int64_t ticks = 0;
  for (int i = 0; i < 20'000; ++i) {
    ASSERT_EQ(StratumOf(schedule.next_ns()), ticks + schedule.missed());
    const int64_t late = random() % 4 == 0 ? static_cast<int64_t>(random() % (5 * kInterval)) : 0;
    const int64_t now = schedule.next_ns() + late;
    schedule.Advance(now);
    ++ticks;
    ASSERT_GE(schedule.next_ns(), now);
    ASSERT_LT(schedule.next_ns(), now + 2 * kInterval);
  }
  EXPECT_GT(schedule.missed(), 5'000);
}

// A tick that takes part of an interval misses nothing: one that is due meanwhile follows at once.
TEST(TickScheduleTest, LongTicksMissNothing) {
  TickSchedule schedule(kInterval, kOrigin, 11);
  int at_once = 0;
  for (int64_t i = 0; i < 10'000; ++i) {
    ASSERT_EQ(StratumOf(schedule.next_ns()), i);
    const int64_t done = schedule.next_ns() + kInterval / 3;
    schedule.Advance(done);
    ASSERT_GE(schedule.next_ns(), done);
    at_once += schedule.next_ns() == done ? 1 : 0;
  }
  EXPECT_EQ(schedule.missed(), 0);
  // The next instant is less than a third of an interval away: (1/3)^2 / 2 of all.
  EXPECT_NEAR(at_once, 556, 80);
}

TEST(TickScheduleTest, LongPauseIsCountedAtOnce) {
  TickSchedule schedule(kInterval, kOrigin, 5);
  const int64_t now = kOrigin + 3600LL * 100 * kInterval;
  schedule.Advance(now);
  EXPECT_GE(schedule.next_ns(), now);
  EXPECT_EQ(StratumOf(schedule.next_ns()), 1 + schedule.missed());
}

TEST(TickScheduleTest, NothingIsMissedInAPause) {
  TickSchedule schedule(kInterval, kOrigin, 5);
  schedule.SetInterval(3 * kInterval);
  const int64_t now = kOrigin + 3600LL * 100 * kInterval + 7;
  schedule.Resume(now);
  EXPECT_GE(schedule.next_ns(), now);
  EXPECT_LT(schedule.next_ns(), now + 3 * kInterval);
  EXPECT_EQ(schedule.interval_ns(), 3 * kInterval);
  EXPECT_EQ(schedule.missed(), 0);
}

// The stratum that has begun keeps its length: what its tick weighs.
TEST(TickScheduleTest, NewIntervalHoldsFromTheNextStratumOn) {
  TickSchedule schedule(kInterval, kOrigin, 8);
  std::mt19937_64 random(9);
  int64_t stratum = kOrigin;
  int64_t interval = kInterval;
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_EQ(schedule.interval_ns(), interval);
    ASSERT_GE(schedule.next_ns(), stratum);
    ASSERT_LT(schedule.next_ns(), stratum + interval);
    const int64_t instant = schedule.next_ns();
    int64_t next = interval;
    if (random() % 3 == 0) {
      // What was set last counts.
      schedule.SetInterval(1);
      next = 1 + static_cast<int64_t>(random() % (5 * kInterval));
      schedule.SetInterval(next);
    }
    ASSERT_EQ(schedule.next_ns(), instant) << "the present tick stays where it is";
    ASSERT_EQ(schedule.interval_ns(), interval);
    schedule.Advance(instant);
    stratum += interval;
    interval = next;
  }
  EXPECT_EQ(schedule.missed(), 0);
}

TEST(TickScheduleTest, MissedStrataAreOfTheNewLength) {
  TickSchedule schedule(kInterval, kOrigin, 10);
  schedule.SetInterval(4 * kInterval);
  const int64_t now = kOrigin + kInterval + 10 * 4 * kInterval;
  schedule.Advance(now);
  EXPECT_GE(schedule.next_ns(), now);
  EXPECT_EQ((schedule.next_ns() - kOrigin - kInterval) / (4 * kInterval), schedule.missed());
  EXPECT_GE(schedule.missed(), 10);
  EXPECT_LE(schedule.missed(), 11);
}

TEST(TickScheduleTest, AStratumThatIsCutEndsAtOnce) {
  for (uint64_t seed = 0; seed < 1'000; ++seed) {
    TickSchedule schedule(100 * kInterval, kOrigin, seed);
    schedule.SetInterval(kInterval);
    const int64_t cut = kOrigin + 7;
    schedule.Cut(cut, cut + 3);
    ASSERT_GE(schedule.next_ns(), cut + 3);
    ASSERT_LT(schedule.next_ns(), cut + kInterval);
    ASSERT_EQ(schedule.interval_ns(), kInterval);
    ASSERT_EQ(schedule.missed(), 0);
  }
}

// Every part of the time gets ticks that weigh as much as it lasts, on average: before the cut, in
// what is left of the stratum that was cut, after a tick in it and without one, and later.
// A tick was held up, and is cut off long after it was due.
TEST(TickScheduleTest, StrataThatPassBeforeACutAreMissed) {
  TickSchedule schedule(100, 0, 1);
  schedule.SetInterval(10);
  schedule.Cut(550, 550);
  EXPECT_EQ(schedule.missed(), 4);
  EXPECT_EQ(schedule.interval_ns(), 10);
}

TEST(TickScheduleTest, ACutIsUnbiased) {
  constexpr int kRuns = 200'000;
  constexpr int64_t kLong = 1'000, kShort = 100, kCut = 330;
  constexpr std::array<int64_t, 5> kBounds = {0, kCut, kLong, 2 * kLong, 2 * kLong + kShort};
  std::array<double, kBounds.size() - 1> sums{}, squares{};
  for (uint64_t seed = 0; seed < kRuns; ++seed) {
    TickSchedule schedule(kLong, 0, seed);
    std::array<double, sums.size()> weights{};
    bool cut = false;
    while (schedule.next_ns() < kBounds.back()) {
      const int64_t instant = schedule.next_ns();
      if (!cut && instant > kCut) {
        cut = true;
        schedule.SetInterval(kShort);
        schedule.Cut(kCut, kCut);
        continue;
      }
      const size_t part =
          static_cast<size_t>(std::ranges::upper_bound(kBounds, instant) - kBounds.begin()) - 1;
      weights[part] += static_cast<double>(schedule.interval_ns());
      schedule.Advance(instant);
    }
    ASSERT_EQ(schedule.missed(), 0);
    for (size_t i = 0; i < sums.size(); ++i) {
      sums[i] += weights[i];
      squares[i] += weights[i] * weights[i];
    }
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    const double length = static_cast<double>(kBounds[i + 1] - kBounds[i]);
    const double mean = sums[i] / kRuns;
    const double error = std::sqrt((squares[i] / kRuns - mean * mean) / kRuns);
    // The seeds are fixed. One instant is an integer from 0 on: the part before the cut has one
    // more.
    EXPECT_NEAR(mean, length, 3.3 * error + 1) << i;
  }
}

TEST(TickScheduleTest, SeedDecides) {
  TickSchedule a(kInterval, kOrigin, 6);
  TickSchedule same(kInterval, kOrigin, 6);
  TickSchedule other(kInterval, kOrigin, 7);
  EXPECT_EQ(a.next_ns(), same.next_ns());
  EXPECT_NE(a.next_ns(), other.next_ns());
  EXPECT_EQ(a.interval_ns(), kInterval);
}

}  // namespace
}  // namespace profd
