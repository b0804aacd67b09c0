#include "daemon/collect/cost_table.h"

#include <gtest/gtest.h>

namespace profd {
namespace {

TEST(CostTableTest, RowsBecomeTheFieldsOfAnswers) {
  const CollectorCost cost =
      SumCosts({{.account = "switch", .payer = Payer::kTarget, .ns = 1, .events = 7},
                {.account = "jemalloc", .payer = Payer::kTarget, .ns = 20, .events = 3},
                {.account = "malloc", .payer = Payer::kTarget, .ns = 300, .planned = true},
                {.account = "tick", .payer = Payer::kDaemon, .ns = 4'000},
                {.account = "drain", .payer = Payer::kDaemon, .ns = 50'000},
                {.account = "look", .payer = Payer::kDaemon, .ns = 600'000}});
  EXPECT_EQ(cost.in_path_ns, 321);
  EXPECT_EQ(cost.heap_in_path_ns, 20);
  EXPECT_EQ(cost.heap_events, 3);
  EXPECT_EQ(cost.burst_in_path_ns, 300);
  EXPECT_EQ(cost.tick_cpu_ns, 4'000);
  EXPECT_EQ(cost.drain_cpu_ns, 650'000) << "looks are part of it";
}

TEST(CostTableTest, AccountWithoutAFieldIsInTheSum) {
  const CollectorCost cost =
      SumCosts({{.account = "toy", .payer = Payer::kTarget, .ns = 5, .events = 1}});
  EXPECT_EQ(cost.in_path_ns, 5);
}

TEST(CostTableTest, PlannedCostIsNoOverrun) {
  EXPECT_EQ(
      UnplannedInPathNs({{.account = "switch", .payer = Payer::kTarget, .ns = 1},
                         {.account = "malloc", .payer = Payer::kTarget, .ns = 300, .planned = true},
                         {.account = "tick", .payer = Payer::kDaemon, .ns = 4'000}}),
      1);
}

}  // namespace
}  // namespace profd
