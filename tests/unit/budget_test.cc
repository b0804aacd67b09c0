#include "daemon/govern/budget.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace profd {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kMs = 1'000'000;

// A purse in steps of a second, each with what targets used and profiling took in it.
class Seconds {
 public:
  explicit Seconds(Budget budget) : purse(budget) { purse.Begin(sums_); }

  const Allowance& Pass(int64_t targets_cpu, int64_t spent, int64_t fixed = 0) {
    sums_.now_ns += kSecond;
    sums_.targets_cpu += targets_cpu;
    sums_.spent += spent;
    sums_.fixed += fixed;
    return purse.Add(sums_);
  }
  const Allowance& PassMany(int seconds, int64_t targets_cpu, int64_t spent, int64_t fixed = 0) {
    for (int i = 1; i < seconds; ++i) Pass(targets_cpu, spent, fixed);
    return Pass(targets_cpu, spent, fixed);
  }

  Purse purse;

 private:
  Purse::Sums sums_;
};

TEST(PurseTest, IdleTargetsLeaveTheShareOfOneCpu) {
  Seconds time({.share = 0.01});
  EXPECT_DOUBLE_EQ(time.PassMany(120, 0, 0).rate, 0.01);
}

TEST(PurseTest, LargeTargetsGetALargeBudget) {
  Seconds time({.share = 0.01});
  EXPECT_DOUBLE_EQ(time.PassMany(120, 40 * kSecond, 0).rate, 0.4);
  EXPECT_NEAR(time.PassMany(30, 0, 0).rate, 0.2, 0.01) << "half of the last minute";
  EXPECT_DOUBLE_EQ(time.PassMany(31, 0, 0).rate, 0.01);
}

TEST(PurseTest, PartOfOneCpuStaysThat) {
  Seconds time({.share = 0.02, .of_targets = false});
  EXPECT_DOUBLE_EQ(time.PassMany(60, 40 * kSecond, 0).rate, 0.02);
}

TEST(PurseTest, SavesAMinuteAndSpendsIt) {
  Seconds time({.share = 0.01});
  EXPECT_NEAR(time.PassMany(10, 0, 0).saved, 0.6, 1e-9) << "full from the start";
  EXPECT_NEAR(time.Pass(0, 110 * kMs).saved, 0.5, 1e-9);
  EXPECT_NEAR(time.Pass(0, 5 * kMs).saved, 0.505, 1e-9);
  EXPECT_NEAR(time.Pass(0, 3 * kSecond).saved, 0, 1e-9) << "nothing is owed";
  EXPECT_NEAR(time.PassMany(30, 0, 0).saved, 0.3, 1e-9);
  EXPECT_NEAR(time.PassMany(1'000, 0, 0).saved, 0.6, 1e-9) << "a minute's worth";
}

// Whatever is spent as the purse allows, a window of any length has its rate and a minute's worth.
TEST(PurseTest, NoWindowCostsMoreThanItsRateAndAMinute) {
  Seconds time({.share = 0.01});
  double spent = 0, worst = 0;
  for (int second = 1; second <= 3'600; ++second) {
    const Allowance& allowance = time.purse.allowance();
    const double wanted = second % 7 == 0 ? 0.4 : 0.008;
    const double taken = std::min(wanted, allowance.NextSecond());
    spent += taken;
    time.Pass(0, static_cast<int64_t>(taken * static_cast<double>(kSecond)));
    worst = std::max(worst, spent - 0.01 * second);
  }
  EXPECT_LE(worst, 0.6 + 1e-6);
  EXPECT_GE(spent, 0.8 * 36) << "what is allowed is used where there is work";
}

TEST(PurseTest, WhatNothingGovernsIsSmoothedAndBounded) {
  Seconds time({.share = 0.01});
  EXPECT_LT(time.Pass(0, 60 * kMs, 60 * kMs).fixed, 0.0011) << "one answer is no load";
  EXPECT_NEAR(time.PassMany(600, 0, 2 * kMs, 2 * kMs).fixed, 0.002, 1e-5);
  EXPECT_NEAR(time.PassMany(600, 0, 50 * kMs, 50 * kMs).fixed, 0.005, 1e-9)
      << "half of the budget at most";
}

TEST(PurseTest, PauseIsNoLoad) {
  Seconds time({.share = 0.01});
  time.Pass(0, 300 * kMs);
  const double saved = time.purse.allowance().saved;
  time.purse.Begin({.now_ns = 3'600 * kSecond, .targets_cpu = 7, .spent = kSecond, .fixed = 0});
  EXPECT_EQ(time.purse.allowance().saved, saved);
}

TEST(PurseTest, WithoutABudgetThereIsNoBound) {
  Seconds time({.share = kNoBudget});
  EXPECT_EQ(time.PassMany(10, kSecond, 5 * kSecond, kSecond).NextSecond(), kNoBudget);
  EXPECT_EQ(time.purse.allowance().fixed, 0);
}

}  // namespace
}  // namespace profd
