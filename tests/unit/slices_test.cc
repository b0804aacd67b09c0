#include "daemon/source/slices.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace profd {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kOrigin = 77'777;

TEST(SlicesTest, AlwaysAndNever) {
  Slices slices(1);
  EXPECT_TRUE(slices.IsOnAt(kOrigin));
  EXPECT_EQ(slices.next_ns(), std::numeric_limits<int64_t>::max());
  slices.SetShare(0, kOrigin);
  EXPECT_FALSE(slices.IsOnAt(kOrigin));
  EXPECT_EQ(slices.next_ns(), std::numeric_limits<int64_t>::max());
  slices.SetShare(1, kOrigin);
  EXPECT_TRUE(slices.IsOnAt(kOrigin + 1));
}

// Woken only when it asks to be, it is on for its share of the time, in slices of one length and
// not more often than once a second.
TEST(SlicesTest, ShareOfTheTime) {
  struct Case {
    double share;
    int64_t length_ns;
  };
  for (const auto& [share, length_ns] :
       {Case{1.0 / 4, 250 * kMs}, Case{1.0 / 16, 62'500'000}, Case{1.0 / 64, 60 * kMs}}) {
    Slices slices(2);
    slices.SetShare(share, kOrigin);
    int64_t now = kOrigin;
    int64_t on = 0, turns = 0;
    const int64_t end = kOrigin + 4'000'000 * kMs;
    while (now < end) {
      const bool is_on = slices.IsOnAt(now);
      ASSERT_GT(slices.next_ns(), now);
      if (is_on) {
        EXPECT_EQ(slices.next_ns() - now, length_ns);
        on += slices.next_ns() - now;
        ++turns;
      }
      now = slices.next_ns();
    }
    EXPECT_NEAR(static_cast<double>(on) / static_cast<double>(now - kOrigin), share, share * 0.01);
    EXPECT_EQ(on, turns * length_ns);
    EXPECT_LE(turns, 4'001);
  }
}

// Each instant of a period is as likely to be watched: no bin of where a slice begins is preferred.
// With the seed fixed the figures are fixed; the bound is where chance would end in 1 of 1000.
TEST(SlicesTest, SlicesBeginAnywhere) {
  constexpr int kBins = 20;
  constexpr double kChiSquare19 = 43.8;
  constexpr int64_t kPeriod = 32 * Slices::kLeastLengthNs;
  constexpr int kTurns = 20'000;
  Slices slices(3);
  slices.SetShare(1.0 / 32, kOrigin);
  std::vector<int> bins(kBins);
  int64_t now = kOrigin;
  for (int turn = 0; turn < kTurns;) {
    if (slices.IsOnAt(now)) {
      const int64_t within = (now - kOrigin) % kPeriod;
      ++bins[static_cast<size_t>(within * kBins / (kPeriod - Slices::kLeastLengthNs + 1))];
      ++turn;
    }
    now = slices.next_ns();
  }
  double chi_square = 0;
  constexpr double kExpected = static_cast<double>(kTurns) / kBins;
  for (const int n : bins) chi_square += (n - kExpected) * (n - kExpected) / kExpected;
  EXPECT_LT(chi_square, kChiSquare19);
}

// Whoever comes late sees the state of that instant, and asks for another one ahead.
TEST(SlicesTest, LateCallsDoNoHarm) {
  Slices slices(4);
  slices.SetShare(1.0 / 8, kOrigin);
  const int64_t late = kOrigin + 3600'000 * kMs;
  slices.IsOnAt(late);
  EXPECT_GT(slices.next_ns(), late);
  EXPECT_LE(slices.next_ns(), late + Slices::kLeastPeriodNs);
}

}  // namespace
}  // namespace profd
