// Long waits: what is kept of them, from the drain to the window.
#include "daemon/store/long_waits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "daemon/store/memory_store.h"
#include "daemon/store/rollup.h"

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1'000 * kMs;

ThreadInfo Info(uint64_t id, int32_t pid = 100, bool exited = false) {
  return {.id = ThreadId{id},
          .pid = pid,
          .tid = static_cast<int32_t>(id),
          .target = 1,
          .name = "worker",
          .process = "server",
          .exited = exited,
          .process_start_ns = pid};
}

LongWait Wait(uint64_t thread, int64_t begin_ms, int64_t ms, uint64_t stack = 9,
              Reason reason = Reason::kLock) {
  return {.key = {.thread = ThreadId{thread},
                  .stack = StackId{stack},
                  .argument = 0xabc,
                  .syscall = 202,
                  .reason = reason},
          .begin_ns = begin_ms * kMs,
          .duration_ns = ms * kMs};
}

class KeepLongestTest : public ::testing::Test {
 protected:
  KeepLongestTest() {
    for (const int32_t pid : {100, 100, 200}) {
      threads_.push_back(std::make_shared<const ThreadInfo>(Info(threads_.size(), pid)));
    }
    for (const uint64_t stack : {7, 8, 9})
      sites_.push_back({.stack = StackId{stack}, .reason = Reason::kLock});
    sites_.push_back({.stack = StackId{7}, .reason = Reason::kPoll});
  }
  void Add(uint32_t thread, uint32_t site, int64_t begin_ms, int64_t ms) {
    waits_.push_back(
        {.thread = thread, .site = site, .begin_ns = begin_ms * kMs, .duration_ns = ms * kMs});
  }
  uint64_t Keep(const LongWaitLimits& limits) {
    const uint64_t left_out = KeepLongest({threads_, sites_}, limits, &waits_);
    kept_.clear();
    similar_.clear();
    for (const StoredWait& wait : waits_) {
      kept_.push_back(wait.duration_ns / kMs);
      similar_.push_back(wait.similar);
    }
    return left_out;
  }

  std::vector<std::shared_ptr<const ThreadInfo>> threads_;
  std::vector<Site> sites_;
  std::vector<StoredWait> waits_;
  std::vector<int64_t> kept_;  // ms
  std::vector<uint64_t> similar_;
};

TEST_F(KeepLongestTest, TheRestOfAStackIsCountedAtItsShortest) {
  for (int64_t i = 1; i <= 5; i++) Add(i % 2 == 0 ? 0 : 1, 0, i * 1000, i * 10);
  Add(2, 0, 1000, 15);  // another process
  EXPECT_EQ(Keep({.of_stack = 2, .resting = 10, .others = 10}), 0U);
  EXPECT_THAT(kept_, ElementsAre(50, 40, 15));
  EXPECT_THAT(similar_, ElementsAre(0, 3, 0));
  // Once more, as when segments are rolled up.
  Add(0, 0, 9000, 45);
  EXPECT_EQ(Keep({.of_stack = 2, .resting = 10, .others = 10}), 0U);
  EXPECT_THAT(kept_, ElementsAre(50, 45, 15));
  EXPECT_THAT(similar_, ElementsAre(0, 4, 0));
}

TEST_F(KeepLongestTest, RestingThreadsTakeNoRoomOfOthers) {
  for (int64_t i = 0; i < 3; i++) Add(0, 3, i * 1000, 900);
  Add(0, 0, 100, 20);
  EXPECT_EQ(Keep({.of_stack = 10, .resting = 1, .others = 1}), 0U);
  EXPECT_THAT(kept_, ElementsAre(900, 20));
  EXPECT_THAT(similar_, ElementsAre(2, 0));
}

TEST_F(KeepLongestTest, WhatFindsNoRoomIsTold) {
  for (uint32_t site = 0; site < 3; site++) Add(0, site, site * 100, 30 - site);
  EXPECT_EQ(Keep({.of_stack = 10, .resting = 0, .others = 1}), 1U)
      << "there is as much room again for the longest of a stack";
  EXPECT_THAT(kept_, ElementsAre(30, 29));
}

TEST_F(KeepLongestTest, AWaitThatWasToldSeveralTimesIsOne) {
  Add(0, 0, 1000, 1500);
  waits_.back().lasts = true;
  Add(0, 0, 1000, 2500);
  waits_.back().lasts = true;
  EXPECT_EQ(Keep(kLongWaitsOfSlice), 0U);
  EXPECT_THAT(kept_, ElementsAre(2500));
  EXPECT_TRUE(waits_[0].lasts);
  // Its end. The clocks lay a little differently.
  Add(0, 0, 1000, 2600);
  waits_.back().begin_ns += 5'000;
  Keep(kLongWaitsOfSlice);
  EXPECT_THAT(kept_, ElementsAre(2600));
  EXPECT_FALSE(waits_[0].lasts);
  // Of two threads of one row.
  Add(0, 0, 1000, 100);
  Keep(kLongWaitsOfSlice);
  EXPECT_THAT(kept_, ElementsAre(2600, 100));
}

class LongWaitStoreTest : public ::testing::Test {
 protected:
  // A second in which thread 1 and 2 waited.
  ProfileDelta Second(int64_t n) {
    ProfileDelta delta;
    delta.begin_ns = n * kSecond;
    delta.end_ns = (n + 1) * kSecond;
    delta.switch_on = delta.tick_on = true;
    delta.long_work_ns = 20 * kMs;
    delta.long_rest_ns = 100 * kMs;
    if (n == 1) {
      delta.threads = {Info(1), Info(2, 200)};
      delta.stacks = {{.id = StackId{9}, .frames = {1, 2}}, {.id = StackId{5}, .frames = {3}}};
    }
    for (const uint64_t thread : {1, 2}) {
      delta.ledgers.push_back({.thread = ThreadId{thread}, .delta = {.wall_ns = kSecond}});
    }
    return delta;
  }
  MergedProfile Merge(int64_t begin, int64_t end, int32_t pid = 0) {
    auto merged = store_.Merge(
        {begin, end}, [pid](const ThreadInfo& info) { return pid == 0 || info.pid == pid; });
    EXPECT_TRUE(merged.ok()) << merged.status();
    return *std::move(merged);
  }

  MemoryStore store_;
};

TEST_F(LongWaitStoreTest, ComesBackWithAllThatIsKnown) {
  for (int64_t n = 1; n <= 3; n++) {
    ProfileDelta delta = Second(n);
    if (n == 2) {
      delta.long_waits = {Wait(1, 1'500, 800), Wait(2, 2'100, 30)};
      delta.long_waits[0].waker = StackId{5};
      delta.long_waits[0].doubt_ns = 7;
      delta.long_waits[0].earlier = true;
      delta.long_work_ns = 25 * kMs;
    }
    ASSERT_TRUE(store_.Append(delta).ok());
  }
  const MergedProfile all = Merge(0, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(all.long_work_ns, 25 * kMs) << "the largest in the window";
  EXPECT_EQ(all.long_rest_ns, 100 * kMs);
  ASSERT_EQ(all.long_waits.size(), 2U);
  const MergedWait& longest = all.long_waits[0];
  EXPECT_EQ(all.threads[longest.thread].info->pid, 100);
  EXPECT_EQ(longest.wait.key, Wait(1, 0, 0).key);
  EXPECT_EQ(longest.wait.begin_ns, 1'500 * kMs);
  EXPECT_EQ(longest.wait.duration_ns, 800 * kMs);
  EXPECT_EQ(longest.wait.doubt_ns, 7);
  EXPECT_TRUE(longest.wait.earlier);
  EXPECT_FALSE(longest.wait.lasts);
  EXPECT_EQ(longest.wait.waker, StackId{5});
  EXPECT_EQ(all.stacks.size(), 2U) << "of the waiter and of the waker";
  EXPECT_EQ(all.long_waits[1].wait.duration_ns, 30 * kMs);
  EXPECT_EQ(Merge(0, 9 * kSecond, 200).long_waits.size(), 1U);
  EXPECT_THAT(Merge(3 * kSecond, 4 * kSecond).long_waits, IsEmpty()) << "they do not overlap it";
}

// Raw, sealed and rolled up it is the same.
TEST_F(LongWaitStoreTest, OutlivesRollingUp) {
  for (int64_t n = 1; n <= 2'000; n++) {
    ProfileDelta delta = Second(n);
    delta.long_waits.push_back(Wait(1, n * 1'000 + 100, 20 + n % 700));
    delta.long_waits.back().waker = StackId{5};
    ASSERT_TRUE(store_.Append(delta).ok());
  }
  const MergedProfile all = Merge(0, std::numeric_limits<int64_t>::max());
  ASSERT_GE(all.coarsest_ns, 10 * kSecond) << "some of it is rolled up";
  ASSERT_FALSE(all.long_waits.empty());
  EXPECT_EQ(all.long_waits[0].wait.duration_ns, 719 * kMs);
  EXPECT_EQ(all.long_waits[0].wait.waker, StackId{5});
  EXPECT_EQ(all.threads[all.long_waits[0].thread].info->pid, 100);
  uint64_t known = 0;
  for (const MergedWait& wait : all.long_waits) known += 1 + wait.similar;
  EXPECT_EQ(known, 2'000U) << "each is there, or counted as similar";
  EXPECT_EQ(all.losses[PROFD_LOSS_LONG_WAIT], 0U);
}

}  // namespace
}  // namespace profd
