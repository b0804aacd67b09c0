#include "daemon/collect/switch_entry.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <thread>
#include <vector>

#include "daemon/base/clock.h"

namespace profd {
namespace {

TEST(SwitchEntryTest, TheRoundsOfAnUndisturbedCpuAreShortAndMany) {
  std::vector<double> rounds;
  MeasureSwitches(&rounds);
  ASSERT_GT(rounds.size(), 1U);
  for (const double ns : rounds) {
    EXPECT_GT(ns, 100);
    EXPECT_LT(ns, 10'000'000);
  }
}

// A machine may be busy with its targets when profd starts.
TEST(SwitchEntryTest, ABusyCpuDelaysItLittle) {
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
  const int64_t begin = MonotonicNs();
  MeasureSwitches(&rounds);
  const int64_t took = MonotonicNs() - begin;
  over = true;
  for (std::thread& hog : hogs) hog.join();
  EXPECT_GE(rounds.size(), 2U);
  EXPECT_LT(took, 5'000'000'000) << rounds.size() << " rounds";
}

}  // namespace
}  // namespace profd
