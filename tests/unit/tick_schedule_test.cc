#include "daemon/source/tick_schedule.h"

#include <gtest/gtest.h>

#include <cmath>
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
