#include "daemon/profile/cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

CollectorCost Cost(int64_t n) {
  return {.daemon_cpu_ns = 7 * n,
          .tick_cpu_ns = 6 * n,
          .drain_cpu_ns = 5 * n,
          .rules_cpu_ns = 4 * n,
          .answers_cpu_ns = 3 * n,
          .in_path_ns = 2 * n,
          .switches = n,
          .memory_cpu_ns = 8 * n,
          .targets = {}};
}

void ExpectEqual(const CollectorCost& a, const CollectorCost& b) {
  EXPECT_EQ(a.daemon_cpu_ns, b.daemon_cpu_ns);
  EXPECT_EQ(a.tick_cpu_ns, b.tick_cpu_ns);
  EXPECT_EQ(a.drain_cpu_ns, b.drain_cpu_ns);
  EXPECT_EQ(a.rules_cpu_ns, b.rules_cpu_ns);
  EXPECT_EQ(a.answers_cpu_ns, b.answers_cpu_ns);
  EXPECT_EQ(a.in_path_ns, b.in_path_ns);
  EXPECT_EQ(a.switches, b.switches);
  EXPECT_EQ(a.memory_cpu_ns, b.memory_cpu_ns);
  EXPECT_EQ(a.targets, b.targets);
}

TEST(CostTest, AddsFieldByField) {
  CollectorCost sum = Cost(1);
  AddCost(Cost(10), &sum);
  ExpectEqual(sum, Cost(11));
}

TEST(CostTest, AddsTargetsByNumber) {
  CollectorCost sum;
  CollectorCost cost;
  cost.targets = {
      {.target = 2, .in_path_ns = 1, .tick_cpu_ns = 2, .drain_cpu_ns = 3, .switches = 4}};
  AddCost(cost, &sum);
  cost.targets.insert(
      cost.targets.begin(),
      {.target = 1, .in_path_ns = 10, .tick_cpu_ns = 20, .drain_cpu_ns = 30, .switches = 40});
  AddCost(cost, &sum);
  EXPECT_THAT(
      sum.targets,
      ElementsAre(
          TargetCost{
              .target = 2, .in_path_ns = 2, .tick_cpu_ns = 4, .drain_cpu_ns = 6, .switches = 8},
          TargetCost{.target = 1,
                     .in_path_ns = 10,
                     .tick_cpu_ns = 20,
                     .drain_cpu_ns = 30,
                     .switches = 40}));
}

TEST(CostTest, SumsWrap) {
  CollectorCost sum{.daemon_cpu_ns = kMax, .targets = {{.target = 1, .switches = kMin}}};
  AddCost({.daemon_cpu_ns = 1, .targets = {{.target = 1, .switches = -1}}}, &sum);
  EXPECT_EQ(sum.daemon_cpu_ns, kMin);
  EXPECT_EQ(sum.targets[0].switches, kMax);
}

TEST(CostTest, SinceUndoesAdd) {
  CollectorCost after = Cost(3);
  AddCost(Cost(5), &after);
  after.targets = {{.target = 1}};
  ExpectEqual(CostSince(after, Cost(3)), Cost(5));
}

TEST(CostTest, IsDividedByWhatEachTargetDid) {
  const CollectorCost cost{
      .tick_cpu_ns = 1'000, .drain_cpu_ns = 600, .in_path_ns = 400, .switches = 10, .targets = {}};
  EXPECT_THAT(DivideCost(cost, {{.target = 1, .switches = 3, .ticks = 1, .threads = 1},
                                {.target = 4, .switches = 1, .ticks = 0, .threads = 2}}),
              ElementsAre(TargetCost{.target = 1,
                                     .in_path_ns = 300,
                                     .tick_cpu_ns = 1'000,
                                     .drain_cpu_ns = 200,
                                     .switches = 3},
                          TargetCost{.target = 4,
                                     .in_path_ns = 100,
                                     .tick_cpu_ns = 0,
                                     .drain_cpu_ns = 400,
                                     .switches = 1}));
}

TEST(CostTest, PartsNeverExceedTheWhole) {
  const CollectorCost cost{
      .tick_cpu_ns = 1'001, .drain_cpu_ns = 999, .in_path_ns = 1'000, .targets = {}};
  std::vector<TargetActivity> activity;
  for (uint32_t i = 1; i <= 7; ++i) {
    activity.push_back({.target = i, .switches = i, .ticks = 1, .threads = i * i});
  }
  TargetCost sum;
  for (const TargetCost& part : DivideCost(cost, activity)) {
    sum.in_path_ns += part.in_path_ns;
    sum.tick_cpu_ns += part.tick_cpu_ns;
    sum.drain_cpu_ns += part.drain_cpu_ns;
  }
  // Less than a nanosecond is lost for each target.
  for (const auto& [part, whole] :
       {std::pair{sum.in_path_ns, cost.in_path_ns}, std::pair{sum.tick_cpu_ns, cost.tick_cpu_ns},
        std::pair{sum.drain_cpu_ns, cost.drain_cpu_ns}}) {
    EXPECT_LE(part, whole);
    EXPECT_GE(part, whole - 7);
  }
}

TEST(CostTest, NobodyDidAnything) {
  EXPECT_THAT(DivideCost(Cost(1), {}), IsEmpty());
  EXPECT_THAT(DivideCost(Cost(1), {{.target = 3}}), ElementsAre(TargetCost{.target = 3}));
}

}  // namespace
}  // namespace profd
