// Histograms of durations.
#include "daemon/profile/durations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <vector>

namespace profd {
namespace {

constexpr size_t kLast = PROFD_DURATION_BUCKETS - 1;
constexpr int64_t kMs = 1'000'000;

void AddWait(int64_t ns, Durations* to) {
  to->Add(profd_duration_bucket(static_cast<uint64_t>(ns)), 1, ns);
}

TEST(DurationsTest, TheLogarithmIsRoundedDown) {
  EXPECT_EQ(profd_log2(0), 0U);
  for (uint32_t bit = 0; bit < 64; ++bit) {
    const uint64_t power = uint64_t{1} << bit;
    EXPECT_EQ(profd_log2(power), bit);
    EXPECT_EQ(profd_log2(power + (power - 1)), bit);
  }
}

TEST(DurationsTest, BucketsBeginWhereTheyAreSaidTo) {
  for (size_t i = 1; i <= kLast; ++i) {
    const auto begin = static_cast<uint64_t>(DurationBucketBegin(i));
    EXPECT_EQ(profd_duration_bucket(begin), i);
    EXPECT_EQ(profd_duration_bucket(begin - 1), i - 1);
  }
  EXPECT_EQ(DurationBucketBegin(1), 1'024);
  EXPECT_EQ(DurationBucketBegin(kLast), int64_t{1} << 35);
  EXPECT_EQ(profd_duration_bucket(0), 0U);
  EXPECT_EQ(profd_duration_bucket(std::numeric_limits<uint64_t>::max()), kLast);
}

TEST(DurationsTest, NothingHasNoQuantiles) {
  Durations none;
  none.Add(PROFD_DURATION_BUCKETS, 5, kMs);
  EXPECT_EQ(none.count(), 0U);
  EXPECT_EQ(none.Quantile(0.5), 0);
  EXPECT_EQ(none.Longest(), 0);
  EXPECT_EQ(none.known_longest(), 0);
}

TEST(DurationsTest, QuantilesAreAtMostAFifthOff) {
  std::mt19937_64 random(1);
  std::lognormal_distribution<double> length(13, 3);
  for (const size_t count : {1, 2, 10, 99, 100, 101, 5'000}) {
    Durations durations;
    std::vector<int64_t> all;
    for (size_t i = 0; i < count; ++i) {
      all.push_back(static_cast<int64_t>(std::clamp(length(random), 1'024.0, 6e10)));
      AddWait(all.back(), &durations);
    }
    std::sort(all.begin(), all.end());
    for (const double part : {0.01, 0.5, 0.9, 0.99, 1.0}) {
      const auto rank = static_cast<size_t>(std::ceil(part * static_cast<double>(count)));
      const auto exact = static_cast<double>(all[rank - 1]);
      EXPECT_NEAR(static_cast<double>(durations.Quantile(part)), exact, exact / 5)
          << part << " of " << count;
    }
    EXPECT_EQ(durations.Longest(), all.back());
    EXPECT_EQ(durations.Quantile(1), all.back());
  }
}

TEST(DurationsTest, WithoutTheLongestItsBucketEnds) {
  Durations durations;
  const uint32_t bucket = profd_duration_bucket(50 * kMs);
  durations.Add(bucket, 60, 0);
  EXPECT_EQ(durations.known_longest(), 0);
  EXPECT_EQ(durations.Longest(), DurationBucketBegin(bucket + 1));
  durations.Add(bucket - 1, 1, 30 * kMs);
  EXPECT_EQ(durations.known_longest(), 0);
}

TEST(DurationsTest, ShortestAndLongestHaveNoWrongPrecision) {
  Durations durations;
  durations.Add(0, 10, 0);
  EXPECT_EQ(durations.Quantile(0.5), 1'024);
  durations.Add(kLast, 30, 0);
  EXPECT_GE(durations.Quantile(0.9), int64_t{1} << 35);
}

TEST(DurationsTest, SumsAddUpAndStop) {
  Durations a, b;
  AddWait(kMs, &a);
  AddWait(3 * kMs, &b);
  a.Add(b);
  EXPECT_EQ(a.count(), 2U);
  EXPECT_EQ(a.Longest(), 3 * kMs);
  a.Add(3, std::numeric_limits<uint64_t>::max(), 0);
  a.Add(3, 5, 0);
  EXPECT_EQ(a.count(), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(a.buckets()[3], std::numeric_limits<uint64_t>::max());
}

}  // namespace
}  // namespace profd
