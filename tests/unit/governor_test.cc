#include "daemon/govern/governor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Its costs at each level under a load of 1; they grow with the load.
class FakeSource final : public Knob {
 public:
  FakeSource(const char* name, Payer payer, std::vector<double> costs, int sampled_levels = 1)
      : name_(name), payer_(payer), costs_(std::move(costs)), sampled_levels_(sampled_levels) {}

  const char* name() const override { return name_; }
  Payer payer() const override { return payer_; }
  int levels() const override { return static_cast<int>(costs_.size()); }
  int sampled_levels() const override { return sampled_levels_; }
  double CostAt(int level) const override { return load * costs_.at(static_cast<size_t>(level)); }
  std::string GivenUpAt(int level) const override { return level == 0 ? "" : "something"; }

  double load = 1;

 private:
  const char* const name_;
  const Payer payer_;
  const std::vector<double> costs_;
  const int sampled_levels_;
};

constexpr Allowance kBudget = {.rate = 0.010};
constexpr Allowance kTwice = {.rate = 0.020};
constexpr int kCalmSteps = 10;

TEST(GovernorTest, WithinTheBudgetNothingIsGivenUp) {
  FakeSource source("a", Payer::kTarget, {0.010, 0});
  Governor governor;
  governor.AddKnob(&source);
  for (int i = 0; i < 100; ++i) EXPECT_THAT(governor.Step(kBudget), IsEmpty());
  EXPECT_EQ(source.level(), 0);
  EXPECT_EQ(governor.changes(), 0U);
}

TEST(GovernorTest, EnoughLevelsAtOnceAndNoMore) {
  FakeSource source("a", Payer::kDaemon, {0.016, 0.012, 0.008, 0.004, 0.002});
  Governor governor;
  governor.AddKnob(&source);
  source.load = 1.3;
  EXPECT_THAT(governor.Step(kTwice), ElementsAre(&source));
  EXPECT_EQ(source.level(), 1) << "0.0156 is within nine tenths of the budget";
  source.load = 4;
  EXPECT_THAT(governor.Step(kTwice), ElementsAre(&source));
  EXPECT_EQ(source.level(), 3);
  EXPECT_THAT(governor.Step(kTwice), IsEmpty());
  EXPECT_EQ(governor.changes(), 2U);
}

TEST(GovernorTest, SourcesAreAskedInTheOrderOfThePlan) {
  FakeSource first("a", Payer::kTarget, {0.008, 0.006, 0.001});
  FakeSource second("b", Payer::kTarget, {0.008, 0.002});
  FakeSource third("c", Payer::kTarget, {0.0001, 0});
  Governor governor;
  for (FakeSource* source : {&first, &second, &third}) governor.AddKnob(source);
  EXPECT_THAT(governor.Step(kBudget), ElementsAre(&first, &second));
  EXPECT_EQ(first.level(), 2) << "all that it has before the next is asked";
  EXPECT_EQ(second.level(), 1);
  EXPECT_EQ(third.level(), 0);
}

// Giving up what costs next to nothing helps nobody, unless nothing else is left.
TEST(GovernorTest, SmallSourcesAreAskedLast) {
  FakeSource small("a", Payer::kTarget, {0.0005, 0});
  FakeSource large("b", Payer::kTarget, {0.020, 0.0085});
  Governor governor;
  governor.AddKnob(&small);
  governor.AddKnob(&large);
  EXPECT_THAT(governor.Step(kBudget), ElementsAre(&large));
  EXPECT_EQ(small.level(), 0);
  small.load = 4;
  EXPECT_THAT(governor.Step(kBudget), ElementsAre(&small)) << "0.002 beside 0.0085 is too much";
}

TEST(GovernorTest, SourceThatIsTooDearAtItsLeastStaysThereAndTheNextIsAsked) {
  FakeSource first("a", Payer::kDaemon, {0.200, 0.150, 0.100});
  FakeSource second("b", Payer::kDaemon, {0.010, 0.005});
  FakeSource fixed("c", Payer::kDaemon, {0.001});
  Governor governor;
  for (FakeSource* source : {&first, &second, &fixed}) governor.AddKnob(source);
  EXPECT_THAT(governor.Step(kTwice), ElementsAre(&first, &second));
  EXPECT_EQ(first.level(), 2);
  EXPECT_EQ(second.level(), 1);
  for (int i = 0; i < 50; ++i)
    EXPECT_THAT(governor.Step(kTwice), IsEmpty()) << "nothing is left to give";
  EXPECT_EQ(first.level(), 2);
  EXPECT_EQ(second.level(), 1);
}

TEST(GovernorTest, ComesBackAfterTenCalmSteps) {
  FakeSource source("a", Payer::kTarget, {0.010, 0.004, 0});
  Governor governor;
  governor.AddKnob(&source);
  source.load = 10;
  governor.Step(kBudget);
  ASSERT_EQ(source.level(), 2);
  source.load = 0.6;
  for (int i = 1; i < kCalmSteps; ++i) {
    EXPECT_THAT(governor.Step(kBudget), IsEmpty());
    EXPECT_EQ(source.level(), 2);
  }
  EXPECT_THAT(governor.Step(kBudget), ElementsAre(&source));
  EXPECT_EQ(source.level(), 0) << "as many levels as fit";
}

TEST(GovernorTest, LongStepsCountAsManySeconds) {
  FakeSource source("a", Payer::kTarget, {0.010, 0});
  Governor governor;
  governor.AddKnob(&source);
  source.load = 2;
  governor.Step(kBudget, 5);
  ASSERT_EQ(source.level(), 1);
  source.load = 0.5;
  EXPECT_THAT(governor.Step(kBudget, 5), IsEmpty());
  EXPECT_THAT(governor.Step(kBudget, 5), ElementsAre(&source));
}

TEST(GovernorTest, OneStepThatIsNotCalmBeginsTheCountAnew) {
  FakeSource source("a", Payer::kTarget, {0.010, 0});
  Governor governor;
  governor.AddKnob(&source);
  source.load = 2;
  governor.Step(kBudget);
  ASSERT_EQ(source.level(), 1);
  for (int i = 0; i < 5; ++i) {
    source.load = 0.5;
    for (int k = 1; k < kCalmSteps; ++k) governor.Step(kBudget);
    source.load = 0.8;
    governor.Step(kBudget);
    EXPECT_EQ(source.level(), 1);
  }
}

// The last calm step alone would let everything come back.
TEST(GovernorTest, ComesBackAsFarAsItFittedAllTheWhile) {
  FakeSource source("a", Payer::kDaemon, {0.020, 0.010, 0.005, 0.001});
  Governor governor;
  governor.AddKnob(&source);
  source.load = 15;
  governor.Step(kTwice);
  ASSERT_EQ(source.level(), 3);
  source.load = 1.3;
  for (int i = 1; i < kCalmSteps; ++i) governor.Step(kTwice);
  source.load = 0;
  EXPECT_THAT(governor.Step(kTwice), ElementsAre(&source));
  EXPECT_EQ(source.level(), 1);
}

TEST(GovernorTest, LoadThatSwingsAroundTheBudgetDoesNotFlap) {
  FakeSource source("a", Payer::kTarget, {0.010, 0.005, 0});
  Governor governor;
  governor.AddKnob(&source);
  for (int i = 0; i < 1'000; ++i) {
    source.load = i % 20 < 10 ? 1.2 : 0.8;
    governor.Step(kBudget);
  }
  EXPECT_EQ(governor.changes(), 1U);
  // Neither does one that is calm for most of the time.
  for (int i = 0; i < 1'000; ++i) {
    source.load = i % 10 == 0 ? 1.2 : 0.1;
    governor.Step(kBudget);
  }
  EXPECT_EQ(governor.changes(), 1U);
}

TEST(GovernorTest, WhatWasGivenUpLastComesBackFirst) {
  FakeSource first("a", Payer::kTarget, {0.010, 0});
  FakeSource second("b", Payer::kTarget, {0.010, 0});
  Governor governor;
  governor.AddKnob(&first);
  governor.AddKnob(&second);
  first.load = second.load = 5;
  EXPECT_THAT(governor.Step(kBudget), ElementsAre(&first, &second));
  first.load = second.load = 0.3;
  std::vector<std::pair<int, Knob*>> restored;
  for (int i = 1; i <= 40; ++i) {
    for (Knob* source : governor.Step(kBudget)) restored.emplace_back(i, source);
  }
  EXPECT_THAT(restored, ElementsAre(std::pair{10, &second}, std::pair{20, &first}));
}

TEST(GovernorTest, TheDearestHasFewerSamplesFirst) {
  FakeSource cheap("a", Payer::kTarget, {0.004, 0.002, 0.001, 0}, 3);
  FakeSource dear("b", Payer::kTarget, {0.016, 0.004, 0.002, 0}, 3);
  Governor governor;
  governor.AddKnob(&cheap);
  governor.AddKnob(&dear);
  EXPECT_THAT(governor.Step(kBudget), ElementsAre(&dear))
      << "0.004 beside 0.004 is within the budget";
  EXPECT_EQ(dear.level(), 1);
  // Equally dear now: both give, and nobody is silent before both have the fewest samples.
  cheap.load = dear.load = 2;
  EXPECT_THAT(governor.Step(kBudget), ElementsAre(&cheap, &dear));
  EXPECT_EQ(cheap.level(), 1);
  EXPECT_EQ(dear.level(), 2);
  cheap.load = dear.load = 2.8;
  EXPECT_THAT(governor.Step(kBudget), ElementsAre(&cheap));
  EXPECT_EQ(cheap.level(), 2);
  cheap.load = dear.load = 4;
  EXPECT_THAT(governor.Step(kBudget), ElementsAre(&cheap)) << "the first of the plan, as before";
  EXPECT_EQ(cheap.level(), 3);
  EXPECT_EQ(dear.level(), 2);
}

// One whose samples are not what costs: the others keep theirs.
TEST(GovernorTest, NobodyHasFewerSamplesInVain) {
  FakeSource sampled("a", Payer::kTarget, {0.006, 0.003, 0.001, 0.0005}, 3);
  FakeSource fixed("b", Payer::kTarget, {0.051, 0.0505, 0.050, 0}, 3);
  Governor governor;
  governor.AddKnob(&sampled);
  governor.AddKnob(&fixed);
  EXPECT_THAT(governor.Step(kBudget), ElementsAre(&fixed));
  EXPECT_EQ(fixed.level(), 3);
  EXPECT_EQ(sampled.level(), 0);
}

TEST(GovernorTest, WhatWouldNotFitKeepsNobodyWaiting) {
  FakeSource sampled("a", Payer::kTarget, {0.006, 0.003, 0.001, 0}, 3);
  FakeSource dear("b", Payer::kTarget, {0.050, 0});
  Governor governor;
  governor.AddKnob(&sampled);
  governor.AddKnob(&dear);
  sampled.load = 2;
  EXPECT_THAT(governor.Step(kBudget), ElementsAre(&sampled, &dear));
  EXPECT_EQ(sampled.level(), 1) << "0.006 of 0.010";
  sampled.load = 1;
  for (int i = 1; i < kCalmSteps; ++i) EXPECT_THAT(governor.Step(kBudget), IsEmpty());
  EXPECT_THAT(governor.Step(kBudget), ElementsAre(&sampled));
  EXPECT_EQ(sampled.level(), 0);
  EXPECT_EQ(dear.level(), 1);
}

TEST(GovernorTest, WhatIsNotToldOfComesBackForFewerSamplesOfOthers) {
  FakeSource sampled("a", Payer::kTarget, {0.006, 0.003, 0.001, 0}, 3);
  FakeSource all("b", Payer::kTarget, {0.005, 0});
  Governor governor;
  governor.AddKnob(&sampled);
  governor.AddKnob(&all);
  all.load = 3;
  EXPECT_THAT(governor.Step(kBudget), ElementsAre(&all));
  EXPECT_EQ(sampled.level(), 0);
  all.load = 1;
  for (int i = 1; i < kCalmSteps; ++i) EXPECT_THAT(governor.Step(kBudget), IsEmpty());
  EXPECT_THAT(governor.Step(kBudget), ElementsAre(&sampled, &all));
  EXPECT_EQ(all.level(), 0);
  EXPECT_EQ(sampled.level(), 2)
      << "0.005 and 0.001 are within seven tenths, 0.005 and 0.003 are not";
  // A load at this edge does not swing.
  for (int i = 0; i < 100; ++i) EXPECT_THAT(governor.Step(kBudget), IsEmpty());
}

TEST(GovernorTest, SourceWithAPartKeepsToItAndIsNotAskedForMore) {
  FakeSource own("own", Payer::kTarget, {0.010, 0.004, 0.002, 0});
  FakeSource other("other", Payer::kTarget, {0.010, 0.005, 0});
  Governor governor;  // 0.010
  governor.AddKnob(&own, 0.5);
  governor.AddKnob(&other);
  own.load = 0.4;
  other.load = 0.5;
  EXPECT_THAT(governor.Step(kBudget), IsEmpty()) << "0.004 of its 0.005, and 0.009 in all";
  other.load = 1;
  EXPECT_THAT(governor.Step(kBudget), ElementsAre(&other)) << "who passes the budget is another";
  EXPECT_EQ(other.level(), 1);
  own.load = 2;
  EXPECT_THAT(governor.Step(kBudget), ElementsAre(&own));
  EXPECT_EQ(own.level(), 2) << "0.004 is within its part";
  EXPECT_EQ(other.level(), 1) << "0.009 fits";
  // It comes back by itself, whatever the other has given up.
  own.load = 0.3;
  for (int i = 0; i < kCalmSteps; ++i) governor.Step(kBudget);
  EXPECT_EQ(own.level(), 0);
  EXPECT_EQ(other.level(), 1);
}

TEST(GovernorTest, HundredfoldLoadIsWithinTheBudgetAfterOneStep) {
  FakeSource ticks("a", Payer::kDaemon, {0.010, 0.005, 0.001, 0.0001});
  FakeSource switches("b", Payer::kTarget, {0.001, 0});
  Governor governor;
  governor.AddKnob(&switches);
  governor.AddKnob(&ticks);
  EXPECT_THAT(governor.Step(kTwice), IsEmpty());
  ticks.load = switches.load = 100;
  EXPECT_THAT(governor.Step(kTwice), ElementsAre(&switches, &ticks));
  EXPECT_LE(ticks.CostAt(ticks.level()) + switches.CostAt(switches.level()), kTwice.rate);
}

// Whoever pays: what one does not need, the other may use.
TEST(GovernorTest, SourcesOfBothPayersShareTheBudget) {
  FakeSource target("a", Payer::kTarget, {0.018, 0.002});
  FakeSource daemon("b", Payer::kDaemon, {0.001, 0});
  Governor governor;
  governor.AddKnob(&target);
  governor.AddKnob(&daemon);
  EXPECT_THAT(governor.Step(kTwice), IsEmpty());
  daemon.load = 4;
  EXPECT_THAT(governor.Step(kTwice), ElementsAre(&target)) << "0.022 of 0.020";
  EXPECT_EQ(daemon.level(), 0);
}

TEST(GovernorTest, WhatNothingGovernsCountsToo) {
  FakeSource source("a", Payer::kDaemon, {0.012, 0.006, 0});
  Governor governor;
  governor.AddKnob(&source);
  EXPECT_THAT(governor.Step({.rate = 0.020, .fixed = 0.007}), IsEmpty());
  EXPECT_THAT(governor.Step({.rate = 0.020, .fixed = 0.009}), ElementsAre(&source));
  EXPECT_EQ(source.level(), 1);
}

TEST(GovernorTest, WhatIsSavedPaysForABurst) {
  FakeSource source("a", Payer::kTarget, {0.010, 0.001, 0});
  Governor governor;
  governor.AddKnob(&source);
  source.load = 30;
  EXPECT_THAT(governor.Step({.rate = 0.010, .saved = 0.6}), IsEmpty());
  EXPECT_THAT(governor.Step({.rate = 0.010, .saved = 0.29}), IsEmpty()) << "enough for a second";
  EXPECT_THAT(governor.Step({.rate = 0.010, .saved = 0.28}), ElementsAre(&source));
  EXPECT_EQ(source.level(), 2) << "what follows fits the rate alone";
  // What was given up does not come back for what is saved: it would go again.
  source.load = 1;
  for (int i = 0; i < 2 * kCalmSteps; ++i) governor.Step({.rate = 0.010, .saved = 0.6});
  EXPECT_EQ(source.level(), 1);
}

TEST(GovernorTest, WithoutABudgetNothingIsEverGivenUp) {
  FakeSource target("a", Payer::kTarget, {50, 0});
  FakeSource daemon("b", Payer::kDaemon, {50, 0});
  Governor governor;
  governor.AddKnob(&target);
  governor.AddKnob(&daemon);
  for (int i = 0; i < 50; ++i) {
    target.load *= 1.5;
    EXPECT_THAT(governor.Step({.rate = kNoBudget}), IsEmpty());
  }
  EXPECT_EQ(governor.changes(), 0U);
}

TEST(GovernorTest, NoSources) {
  Governor governor;
  EXPECT_THAT(governor.Step(kBudget), IsEmpty());
}

}  // namespace
}  // namespace profd
