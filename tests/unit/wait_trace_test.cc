// Waits as visits tell of them.
#include "daemon/source/wait_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/source/long_wait.h"

namespace profd {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int64_t kMs = 1'000'000;
constexpr uint64_t kThread = 7;

class WaitTraceTest : public ::testing::Test {
 protected:
  WaitTraceTest() {
    log_.SetLeast({20 * kMs, 100 * kMs});
    log_.SetRepeat(1'000 * kMs);
  }
  static profd_visit Visit(profd_visit_outcome outcome, int64_t since_ms, uint8_t followed) {
    profd_visit visit{};
    visit.thread_id = kThread;
    visit.stack = 9;
    visit.reason = PROFD_REASON_LOCK;
    visit.outcome = outcome;
    visit.followed = followed;
    visit.since = static_cast<uint64_t>(since_ms * kMs);
    return visit;
  }
  // A tick takes 1 ms.
  void At(int64_t ms, profd_visit_outcome outcome, int64_t since_ms = 0, uint8_t followed = 0) {
    log_.Visited(Visit(outcome, since_ms, followed), ms * kMs, (ms + 1) * kMs, &trace_);
  }
  std::vector<LongWait> Take() {
    std::vector<LongWait> waits;
    EXPECT_EQ(log_.Take(waits), 0U);
    return waits;
  }

  WaitLog log_;
  WaitTrace trace_;
};

// Without the per-switch program both ends lie between two visits.
TEST_F(WaitTraceTest, BoundsAWaitByVisits) {
  At(100, PROFD_VISIT_RUNNING);
  At(110, PROFD_VISIT_NEW);
  At(120, PROFD_VISIT_SAME);
  At(140, PROFD_VISIT_STILL);
  EXPECT_THAT(Take(), IsEmpty());
  At(160, PROFD_VISIT_RUNNING);
  const std::vector<LongWait> waits = Take();
  ASSERT_THAT(waits, SizeIs(1));
  EXPECT_EQ(waits[0].begin_ns, 111 * kMs) << "then it was seen to wait";
  EXPECT_EQ(waits[0].duration_ns, 29 * kMs) << "until it was seen the last time";
  EXPECT_EQ(waits[0].doubt_ns, (11 + 21) * kMs);
  EXPECT_EQ(waits[0].key.thread, ThreadId{kThread});
  EXPECT_EQ(waits[0].key.stack, StackId{9});
  EXPECT_FALSE(waits[0].lasts || waits[0].earlier);
}

TEST_F(WaitTraceTest, TheNextWaitEndsOne) {
  At(100, PROFD_VISIT_RUNNING);
  At(110, PROFD_VISIT_NEW);
  At(150, PROFD_VISIT_STILL);
  At(160, PROFD_VISIT_NEW);
  EXPECT_THAT(Take(), SizeIs(1));
  At(200, PROFD_VISIT_GONE);
  EXPECT_THAT(Take(), IsEmpty()) << "it was seen once: 0 ms";
}

TEST_F(WaitTraceTest, ShortOnesAreNotTold) {
  At(100, PROFD_VISIT_RUNNING);
  At(110, PROFD_VISIT_NEW);
  At(130, PROFD_VISIT_SAME);
  At(140, PROFD_VISIT_RUNNING);
  EXPECT_THAT(Take(), IsEmpty()) << "19 ms at least";
}

TEST_F(WaitTraceTest, WhatTheProgramFollowsItTells) {
  At(110, PROFD_VISIT_NEW, 105, PROFD_FOLLOWED);
  At(500, PROFD_VISIT_STILL, 0, PROFD_FOLLOWED);
  At(510, PROFD_VISIT_RUNNING, 0, PROFD_FOLLOWED);
  EXPECT_THAT(Take(), IsEmpty());
  // The program went away meanwhile.
  At(610, PROFD_VISIT_NEW, 605, PROFD_FOLLOWED);
  At(700, PROFD_VISIT_STILL, 0, PROFD_FOLLOWED);
  At(710, PROFD_VISIT_RUNNING, 0, 0);
  const std::vector<LongWait> waits = Take();
  ASSERT_THAT(waits, SizeIs(1));
  EXPECT_EQ(waits[0].begin_ns, 605 * kMs);
  EXPECT_EQ(waits[0].duration_ns, 95 * kMs);
  EXPECT_EQ(waits[0].doubt_ns, 11 * kMs);
}

TEST_F(WaitTraceTest, WhatLastsIsToldFromASecondOn) {
  At(110, PROFD_VISIT_NEW, 105, PROFD_FOLLOWED | PROFD_FOLLOWED_LATE);
  At(1'100, PROFD_VISIT_STILL, 0, PROFD_FOLLOWED);
  EXPECT_THAT(Take(), IsEmpty());
  At(1'200, PROFD_VISIT_STILL, 0, PROFD_FOLLOWED);
  At(1'300, PROFD_VISIT_STILL, 0, PROFD_FOLLOWED);
  std::vector<LongWait> waits = Take();
  ASSERT_THAT(waits, SizeIs(1)) << "not at each visit";
  EXPECT_TRUE(waits[0].lasts);
  EXPECT_TRUE(waits[0].earlier);
  EXPECT_EQ(waits[0].duration_ns, 1'095 * kMs);
  EXPECT_EQ(waits[0].doubt_ns, 0);
  At(2'200, PROFD_VISIT_STILL, 0, PROFD_FOLLOWED);
  waits = Take();
  ASSERT_THAT(waits, SizeIs(1));
  EXPECT_EQ(waits[0].duration_ns, 2'095 * kMs);
}

// A stack that could not be walked is walked again: the wait is the same.
TEST_F(WaitTraceTest, TheSameBeginIsTheSameWait) {
  At(110, PROFD_VISIT_NEW, 105, PROFD_FOLLOWED);
  At(1'200, PROFD_VISIT_NEW, 105, PROFD_FOLLOWED);
  const std::vector<LongWait> waits = Take();
  ASSERT_THAT(waits, SizeIs(1));
  EXPECT_EQ(waits[0].duration_ns, 1'095 * kMs);
}

TEST_F(WaitTraceTest, ThreadsThatAreNotReportedHaveLeft) {
  WaitTraces traces;
  for (const int64_t ms : {100, 120, 140}) {
    traces.Begin();
    log_.Visited(Visit(PROFD_VISIT_SAME, 0, 0), ms * kMs, (ms + 1) * kMs, traces.Of(kThread));
    traces.End((ms + 1) * kMs, &log_);
  }
  EXPECT_THAT(Take(), IsEmpty());
  traces.Begin();
  traces.End(161 * kMs, &log_);
  const std::vector<LongWait> waits = Take();
  ASSERT_THAT(waits, SizeIs(1));
  EXPECT_EQ(waits[0].duration_ns, 39 * kMs);
  EXPECT_TRUE(waits[0].earlier) << "nothing was known of it before";
}

TEST_F(WaitTraceTest, CountsWhatFindsNoRoom) {
  for (int64_t i = 0; i < 5'000; i++) {
    WaitTrace trace;
    log_.Visited(Visit(PROFD_VISIT_NEW, 0, 0), 100 * kMs, 100 * kMs, &trace);
    log_.Visited(Visit(PROFD_VISIT_STILL, 0, 0), 150 * kMs, 150 * kMs, &trace);
    log_.Left(kThread, 160 * kMs, &trace);
  }
  std::vector<LongWait> waits;
  EXPECT_EQ(log_.Take(waits), 5'000U - 4'096U);
  EXPECT_THAT(waits, SizeIs(4'096));
}

TEST(LongWaitThresholdTest, RisesWhileThereAreTooMany) {
  constexpr int64_t kSecond = 1'000 * kMs;
  LongWaitThreshold threshold(20 * kMs);
  threshold.Learn(500, kSecond);
  EXPECT_EQ(threshold.ns(), 20 * kMs);
  threshold.Learn(600, kSecond);
  threshold.Learn(1'200, 2 * kSecond);
  EXPECT_EQ(threshold.ns(), 80 * kMs);
  threshold.Learn(300, kSecond);
  EXPECT_EQ(threshold.ns(), 80 * kMs);
  for (int i = 0; i < 9; i++) threshold.Learn(0, kSecond);
  EXPECT_EQ(threshold.ns(), 20 * kMs) << "never below the least";
  for (int i = 0; i < 99; i++) threshold.Learn(5'000, kSecond);
  EXPECT_EQ(threshold.ns(), 64 * kSecond);
  threshold.Learn(5'000, 0);
}

}  // namespace
}  // namespace profd
