#include "daemon/source/burst_results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Bursts of these lengths; one of an odd length met calls.
BurstResults Results(const std::vector<int64_t>& lengths) {
  BurstResults results;
  for (const int64_t length : lengths) {
    BurstResult result;
    result.length_ns = length;
    if (length % 2 != 0) result.counts.threads.emplace_back();
    results.Add(std::move(result));
  }
  return results;
}

std::vector<int64_t> TakeSlice(BurstResults& results) {
  std::vector<int64_t> lengths;
  for (const BurstResult& result : results.TakeSlice()) lengths.push_back(result.length_ns);
  return lengths;
}

TEST(BurstResultsTest, ASliceHasOneBurstWithCalls) {
  BurstResults results = Results({2, 4, 1, 6, 3, 5});
  EXPECT_TRUE(results.ArePlenty());
  EXPECT_THAT(TakeSlice(results), ElementsAre(2, 4, 1, 6));
  EXPECT_TRUE(results.ArePlenty());
  EXPECT_THAT(TakeSlice(results), ElementsAre(3));
  EXPECT_FALSE(results.ArePlenty());
  EXPECT_THAT(TakeSlice(results), ElementsAre(5));
  EXPECT_THAT(TakeSlice(results), IsEmpty());
}

TEST(BurstResultsTest, AFewBurstsWithoutCallsWaitForADrain) {
  BurstResults results = Results({2, 4, 6});
  EXPECT_FALSE(results.ArePlenty());
  EXPECT_THAT(TakeSlice(results), ElementsAre(2, 4, 6));
  EXPECT_TRUE(Results({2, 4, 6, 8}).ArePlenty()) << "long before the oldest would go";
}

TEST(BurstResultsTest, SamplesAreCalls) {
  BurstResult result;
  EXPECT_FALSE(result.MetCalls());
  result.counts.samples.emplace_back();
  EXPECT_TRUE(result.MetCalls());
}

TEST(BurstResultsTest, TheOldestGo) {
  BurstResults results = Results({2, 4, 6, 8, 10, 12, 14, 16, 18});
  EXPECT_THAT(TakeSlice(results), ElementsAre(4, 6, 8, 10, 12, 14, 16, 18));
}

}  // namespace
}  // namespace profd
