#include "daemon/source/switch_entry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/support/real_time.h"

namespace profd {
namespace {

using ::testing::DoubleEq;

constexpr int kSwitchesOfARound = 10;
constexpr size_t kMostRounds = 64;

// Each round counts CPU time of the calling thread, so that others on the CPU do not add to it.
// What a switch takes is a benchmark's matter.
TEST(SwitchEntryTest, RoundsArePartsOfTheTimeThatTheProcessUsed) {
  timespec before{}, after{};
  ASSERT_EQ(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before), 0);
  std::vector<double> rounds;
  MeasureSwitches(&rounds);
  ASSERT_EQ(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after), 0);
  ASSERT_GE(rounds.size(), 2U);
  EXPECT_LE(rounds.size(), kMostRounds);
  double sum = 0;
  for (const double ns : rounds) {
    EXPECT_GT(ns, 0);
    sum += ns * kSwitchesOfARound;
  }
  EXPECT_LT(sum, static_cast<double>(after.tv_sec - before.tv_sec) * 1e9 +
                     static_cast<double>(after.tv_nsec - before.tv_nsec));
}

// A machine may be busy with its targets when profd starts, which keeps its CPU, or after a while
// does without.
TEST(SwitchEntryTest, ABusyCpuDoesNotKeepItFromEnding) {
  std::atomic<bool> over = false;
  std::vector<std::thread> hogs;
  cpu_set_t allowed;
  ASSERT_EQ(pthread_getaffinity_np(pthread_self(), sizeof(allowed), &allowed), 0);
  int first = 0;
  while (!CPU_ISSET(first, &allowed)) ++first;
  for (int i = 0; i < 6; ++i) {
    hogs.emplace_back([&] {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(first, &one);
      ASSERT_EQ(pthread_setaffinity_np(pthread_self(), sizeof(one), &one), 0);
      while (!over) {
      }
    });
  }
  std::vector<double> rounds;
  MeasureSwitches(&rounds);
  over = true;
  for (std::thread& hog : hogs) hog.join();
  if (MayBeRealTime()) EXPECT_GE(rounds.size(), 2U);
}

// Rounds of which the lower quartile is `ns`: a few fast ones, and others that were interrupted.
std::vector<double> Turn(double ns) {
  return {ns + 900, ns, ns - 40, ns + 5, ns + 7000, ns - 60, ns + 8, ns + 300};
}

TEST(SwitchEntryTest, NeighboursAreCompared) {
  EXPECT_THAT(EntryNs({Turn(1700), Turn(1800), Turn(1700), Turn(1800)}), DoubleEq(100));
  // A CPU that becomes slower, by more than what is measured.
  std::vector<std::vector<double>> turns;
  for (int i = 0; i < 8; ++i) turns.push_back(Turn(1700 + i * 50 + (i % 2 == 1 ? 120 : 0)));
  EXPECT_THAT(EntryNs(turns), DoubleEq(120));
  // One turn beside others counts for nothing.
  turns.clear();
  for (int i = 0; i < 8; ++i) turns.push_back(Turn(i % 2 == 1 ? 1820 : 1700));
  turns[3] = Turn(9000);
  EXPECT_THAT(EntryNs(turns), DoubleEq(120));
}

TEST(SwitchEntryTest, WhatCannotBeMeasuredIsAssumed) {
  EXPECT_EQ(EntryNs({}), kAssumedEntryNs);
  EXPECT_EQ(EntryNs({{}, {}, {}, {}}), kAssumedEntryNs);
  EXPECT_EQ(EntryNs({Turn(1700), {}, Turn(1700), {}}), kAssumedEntryNs);
  EXPECT_EQ(EntryNs({Turn(1800), Turn(1700)}), kAssumedEntryNs);
}

}  // namespace
}  // namespace profd
