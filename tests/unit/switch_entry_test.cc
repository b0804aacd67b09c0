#include "daemon/source/switch_entry.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <atomic>
#include <thread>
#include <vector>

namespace profd {
namespace {

constexpr int kTripsInARound = 25;

// Each round counts CPU time of the calling thread, so that others on the CPU do not add to it.
// What a switch takes is a benchmark's matter.
TEST(SwitchEntryTest, RoundsArePartsOfTheTimeThatTheProcessUsed) {
  timespec before{}, after{};
  ASSERT_EQ(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before), 0);
  std::vector<double> rounds;
  MeasureSwitches(&rounds);
  ASSERT_EQ(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after), 0);
  ASSERT_GE(rounds.size(), 2U);
  EXPECT_LE(rounds.size(), 96U);
  double sum = 0;
  for (const double ns : rounds) {
    EXPECT_GT(ns, 0);
    sum += ns * kTripsInARound;
  }
  EXPECT_LT(sum, static_cast<double>(after.tv_sec - before.tv_sec) * 1e9 +
                     static_cast<double>(after.tv_nsec - before.tv_nsec));
}

// A machine may be busy with its targets when profd starts: it ends all the same, after fewer
// rounds, of which there are at least two.
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
  EXPECT_GE(rounds.size(), 2U);
}

}  // namespace
}  // namespace profd
