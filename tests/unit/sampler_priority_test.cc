#include "daemon/collect/sampler_priority.h"

#include <sched.h>
#include <sys/resource.h>

#include <functional>
#include <thread>

#include "gtest/gtest.h"
#include "tests/support/real_time.h"

namespace profd {
namespace {

constexpr int64_t kMicrosecond = 1'000;
constexpr int64_t kInterval = 10'000'000;

TEST(SamplerPriorityTest, LongTicksTakeNobodysCpu) {
  EXPECT_TRUE(SamplerPriority::IsShort(1'000 * kMicrosecond, kInterval, true));
  EXPECT_FALSE(SamplerPriority::IsShort(1'001 * kMicrosecond, kInterval, true));
  // Where intervals are long, ticks are no longer for that.
  EXPECT_FALSE(SamplerPriority::IsShort(1'001 * kMicrosecond, 100 * kInterval, true));
}

TEST(SamplerPriorityTest, FrequentTicksTakeATenthOfACpuAtMost) {
  EXPECT_TRUE(SamplerPriority::IsShort(100 * kMicrosecond, kInterval / 10, true));
  EXPECT_FALSE(SamplerPriority::IsShort(101 * kMicrosecond, kInterval / 10, true));
}

TEST(SamplerPriorityTest, AThreadAtTheLimitDoesNotChangeItsPolicyAtEachTick) {
  EXPECT_FALSE(SamplerPriority::IsShort(999 * kMicrosecond, kInterval, false));
  EXPECT_FALSE(SamplerPriority::IsShort(501 * kMicrosecond, kInterval, false));
  EXPECT_TRUE(SamplerPriority::IsShort(500 * kMicrosecond, kInterval, false));
}

void InAThread(const std::function<void()>& body) { std::thread(body).join(); }

TEST(SamplerPriorityTest, TheThreadIsRealTimeAfterARowOfShortTicks) {
  const int short_policy = MayBeRealTime() ? SCHED_FIFO | SCHED_RESET_ON_FORK : SCHED_OTHER;
  InAThread([&] {
    SamplerPriority priority;
    priority.Begin();
    const int nice = getpriority(PRIO_PROCESS, 0);
    const auto short_ticks = [&](int count, int64_t interval) {
      for (int i = 0; i < count; ++i) priority.Adapt(100 * kMicrosecond, interval);
    };
    EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
    short_ticks(99, kInterval);
    EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER) << "less than a second";
    short_ticks(1, kInterval);
    EXPECT_EQ(sched_getscheduler(0), short_policy);
    priority.Adapt(2'000 * kMicrosecond, kInterval);
    EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
    EXPECT_EQ(getpriority(PRIO_PROCESS, 0), nice);
    short_ticks(9, 100 * kInterval);
    EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER) << "few ticks";
    short_ticks(1, 100 * kInterval);
    EXPECT_EQ(sched_getscheduler(0), short_policy);
  });
}

}  // namespace
}  // namespace profd
