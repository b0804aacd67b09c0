#include "daemon/source/live_heap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <tuple>
#include <vector>

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr WatchId kModule{7};
constexpr int32_t kPid = 40;
constexpr int64_t kSince = 1'000'000'000'000;
constexpr LiveSampling kSource = {.since_ns = kSince, .sample_bytes = 4096};
constexpr int64_t kWallOffset = 1'700'000'000'000'000'000;

profd_live_heap_record Born(uint64_t thread, uint64_t context, uint64_t stack, uint64_t size) {
  profd_live_heap_record record{};
  record.type = PROFD_RECORD_LIVE_HEAP;
  record.watch_id = static_cast<uint32_t>(kModule);
  record.time = kSince + 5;
  record.thread_id = thread;
  record.context = context;
  record.stack = stack;
  record.size = size;
  record.pid = kPid;
  return record;
}

profd_live_heap_record Gone(uint64_t context, uint64_t size, uint64_t born = kSince + 5) {
  profd_live_heap_record record = Born(99, context, 0, size);
  record.born = born;
  return record;
}

class LiveHeapTest : public testing::Test {
 protected:
  // What each (thread, stack) has: bytes and objects, summed over all changes so far.
  using Levels = std::map<std::pair<uint64_t, uint64_t>, std::pair<int64_t, int64_t>>;

  void Apply(const profd_live_heap_record& record, const LiveSampling& source = kSource) {
    heap_.Apply(record, source, kWallOffset);
  }
  Levels Finish() {
    ProfileDelta delta;
    heap_.Finish(delta);
    for (const Sample& sample : delta.samples) {
      EXPECT_EQ(sample.key.kind, Kind::kInuse);
      EXPECT_TRUE(sample.weight != 0 || sample.ticks != 0) << "no change is told";
      auto& [bytes, objects] = levels_[{static_cast<uint64_t>(sample.key.thread),
                                        static_cast<uint64_t>(sample.key.stack)}];
      bytes += sample.weight;
      objects += sample.ticks;
    }
    std::erase_if(levels_, [](const auto& level) { return level.second == std::pair{0L, 0L}; });
    return levels_;
  }
  size_t Changes() {
    ProfileDelta delta;
    heap_.Finish(delta);
    return delta.samples.size();
  }
  int64_t Bytes() {
    int64_t sum = 0;
    for (const auto& [key, level] : Finish()) sum += level.first;
    return sum;
  }

  LiveHeap heap_;
  Levels levels_;
};

TEST(WeighObjectTest, IsTheInverseOfTheChanceToBeSampled) {
  const double interval = 1 << 19;
  const ObjectWeight same = WeighObject(1 << 19, 1 << 19);
  EXPECT_DOUBLE_EQ(same.objects, 1 / (1 - std::exp(-1.0)));
  EXPECT_DOUBLE_EQ(same.bytes, interval / (1 - std::exp(-1.0)));
  // Small ones stand for an interval, large ones for themselves.
  EXPECT_NEAR(WeighObject(8, 1 << 19).bytes, interval, 5);
  EXPECT_DOUBLE_EQ(WeighObject(1 << 30, 1 << 19).bytes, 1 << 30);
  EXPECT_DOUBLE_EQ(WeighObject(1 << 30, 1 << 19).objects, 1);
  for (const uint64_t interval_of_any : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 63, UINT64_MAX}) {
    for (const uint64_t size : {uint64_t{1}, uint64_t{1} << 46, UINT64_MAX}) {
      const ObjectWeight weight = WeighObject(size, interval_of_any);
      EXPECT_TRUE(std::isfinite(weight.bytes)) << size << " " << interval_of_any;
      EXPECT_GE(weight.bytes, static_cast<double>(size) * (1 - 1e-12));
      EXPECT_GE(weight.objects, 1);
    }
  }
}

TEST_F(LiveHeapTest, ObjectsComeAndGo) {
  const int64_t one = std::llround(WeighObject(1024, 4096).bytes);
  const double each = WeighObject(1024, 4096).objects;
  Apply(Born(1, 0x7000, 50, 1024));
  EXPECT_THAT(Finish(),
              ElementsAre(std::pair(std::pair(1, 50), std::pair(one, std::llround(each)))));
  for (int i = 0; i < 99; ++i) Apply(Born(1, 0x7000, 50, 1024));
  Apply(Born(2, 0x8000, 51, 1 << 20));
  Levels levels = Finish();
  // The sum is rounded, not each.
  EXPECT_EQ((levels[{1, 50}].second), std::llround(100 * each));
  EXPECT_EQ((levels[{2, 51}]), std::pair(1L << 20, 1L));
  const LiveTotals totals = heap_.Totals().at(kModule);
  EXPECT_NEAR(totals.objects, 100 * each + 1, 1e-6);
  EXPECT_EQ(totals.since_ns, kSince);
  EXPECT_EQ(Changes(), 0U) << "what did not change is not told";

  for (int i = 0; i < 100; ++i) Apply(Gone(0x7000, 1024));
  EXPECT_THAT(Finish(), ElementsAre(std::pair(std::pair(2, 51), std::pair(1L << 20, 1L))));
  Apply(Gone(0x8000, 1 << 20));
  EXPECT_THAT(Finish(), IsEmpty());
  EXPECT_EQ(heap_.Totals().at(kModule).bytes, 0);
  EXPECT_EQ(heap_.Totals().at(kModule).objects, 0);
}

TEST_F(LiveHeapTest, WhatIsFromBeforeIsLeftOut) {
  Apply(Gone(0x7000, 1024));  // never seen to come
  Apply(Born(1, 0x7000, 50, 1024));
  const int64_t one = Bytes();
  Apply(Gone(0x7000, 2048));  // of another size
  Apply(Gone(0x7001, 1024));  // of another context
  Apply(Gone(0x7000, 1024, kSince - 100'000'000));
  Apply(Gone(0x7000, 1024, static_cast<uint64_t>(kWallOffset + kSince - 100'000'000)));
  EXPECT_EQ(Bytes(), one);
  // jemalloc's clock may be a step behind.
  Apply(Gone(0x7000, 1024, kSince - 5'000'000));
  EXPECT_EQ(Bytes(), 0);
  for (const uint64_t born : {uint64_t{0}, uint64_t{kSince + 5},
                              static_cast<uint64_t>(kWallOffset + kSince + 5), UINT64_MAX}) {
    Apply(Born(1, 0x7000, 50, 1024));
    EXPECT_EQ(Bytes(), one);
    Apply(Gone(0x7000, 1024, born));
    EXPECT_EQ(Bytes(), 0) << born;
  }
}

// jemalloc's stacks may end where ours go on: objects of one context have several of ours.
TEST_F(LiveHeapTest, TheOldestOfThoseAlikeGoesFirst) {
  Apply(Born(1, 0x7000, 50, 1 << 20));
  Apply(Born(1, 0x7000, 51, 1 << 20));
  Apply(Born(1, 0x7000, 50, 1 << 20));
  Apply(Gone(0x7000, 1 << 20));
  EXPECT_THAT(Finish(), ElementsAre(std::pair(std::pair(1, 50), std::pair(1L << 20, 1L)),
                                    std::pair(std::pair(1, 51), std::pair(1L << 20, 1L))));
  Apply(Gone(0x7000, 1 << 20));
  EXPECT_THAT(Finish(), ElementsAre(std::pair(std::pair(1, 51), std::pair(1L << 20, 1L))));
}

TEST_F(LiveHeapTest, AnObjectGoesWithTheWeightItCameWith) {
  Apply(Born(1, 0x7000, 50, 1024));
  const int64_t sparse = Bytes();
  const LiveSampling denser = {.since_ns = kSince, .sample_bytes = 512};
  Apply(Born(1, 0x7000, 50, 1024), denser);
  // Either is rounded for itself.
  EXPECT_EQ(Bytes(), std::llround(WeighObject(1024, 4096).bytes) +
                         std::llround(WeighObject(1024, 512).bytes));
  Apply(Gone(0x7000, 1024), denser);
  EXPECT_EQ(Bytes(), std::llround(WeighObject(1024, 512).bytes));
  Apply(Gone(0x7000, 1024), denser);
  EXPECT_EQ(Bytes(), 0);
  EXPECT_GT(sparse, 1024);
}

TEST_F(LiveHeapTest, CountedAnewAfterABreak) {
  Apply(Born(1, 0x7000, 50, 1024));
  EXPECT_GT(Bytes(), 0);
  const LiveSampling anew = {.since_ns = kSince + 1000, .sample_bytes = 4096};
  Apply(Born(1, 0x7000, 50, 1024), anew);  // its time is before that
  EXPECT_GT(Bytes(), 0);
  profd_live_heap_record later = Born(1, 0x7000, 60, 1 << 20);
  later.time = kSince + 2000;
  Apply(later, anew);
  EXPECT_THAT(Finish(), ElementsAre(std::pair(std::pair(1, 60), std::pair(1L << 20, 1L))));
  heap_.KeepOnly({{{kPid, kModule}, anew}});
  EXPECT_EQ(Bytes(), 1 << 20);
  heap_.KeepOnly({{{kPid, kModule}, kSource}});
  EXPECT_EQ(Bytes(), 0);
  EXPECT_THAT(heap_.Totals(), IsEmpty());
}

TEST_F(LiveHeapTest, ProcessesThatEndOrBecomeOthersLeaveNothing) {
  Apply(Born(1, 0x7000, 50, 1 << 20));
  profd_live_heap_record other = Born(2, 0x7000, 51, 1 << 21);
  other.pid = kPid + 1;
  Apply(other);
  profd_live_heap_record second = Born(1, 0x9000, 52, 1 << 22);
  second.watch_id = 9;
  Apply(second);
  EXPECT_EQ(Bytes(), (1 << 20) + (1 << 21) + (1 << 22));
  heap_.OnExec(kPid, kSince + 77);
  EXPECT_EQ(Bytes(), 1 << 21) << "of both of its allocators";
  EXPECT_EQ(heap_.Totals().at(kModule).since_ns, kSince + 77);
  // The new program's objects count, and go.
  Apply(Born(3, 0x7000, 53, 1 << 20));
  EXPECT_EQ(Bytes(), (1 << 21) + (1 << 20));
  Apply(Gone(0x7000, 1 << 20));
  EXPECT_EQ(Bytes(), 1 << 21);
  heap_.OnExec(12345, kSince);
  heap_.KeepOnly({{{kPid, kModule}, kSource}});
  EXPECT_EQ(Bytes(), 0);
}

TEST_F(LiveHeapTest, MemoryIsBounded) {
  LiveHeap heap(100);
  for (uint64_t i = 0; i < 1000; ++i) heap.Apply(Born(1, 0x7000 + i, 50, 1 << 20), kSource, 0);
  EXPECT_EQ(heap.dropped(), 900U);
  EXPECT_EQ(heap.Totals().at(kModule).bytes, 100 << 20);
  // What goes makes room.
  heap.Apply(Gone(0x7000, 1 << 20), kSource, 0);
  heap.Apply(Born(1, 0x7999, 50, 1 << 20), kSource, 0);
  EXPECT_EQ(heap.dropped(), 900U);
  heap.Apply(Born(1, 0x7998, 50, 1 << 20), kSource, 0);
  EXPECT_EQ(heap.dropped(), 901U);
  // Stacks of one context, which are looked through one by one.
  LiveHeap narrow;
  for (uint64_t i = 1; i <= 1000; ++i) narrow.Apply(Born(1, 0x7000, i, 1 << 20), kSource, 0);
  EXPECT_GT(narrow.dropped(), 900U);
  EXPECT_LT(narrow.dropped(), 1000U);
}

// Any records: what is told is what a plain count of the same records says, and never below
// nothing.
TEST_F(LiveHeapTest, AgreesWithAPlainCount) {
  std::mt19937 random(1);
  std::map<std::pair<uint64_t, uint64_t>, int> plain;  // by context and size
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t context = 0x7000 + random() % 5;
    const uint64_t size = uint64_t{1} << (20 + random() % 3);
    if (random() % 2 == 0) {
      Apply(Born(1, context, context, size));
      ++plain[{context, size}];
    } else {
      Apply(Gone(context, size));
      int& count = plain[{context, size}];
      count = std::max(0, count - 1);
    }
    if (i % 997 == 0) Finish();
  }
  int64_t expected = 0;
  for (const auto& [key, count] : plain) expected += static_cast<int64_t>(key.second) * count;
  EXPECT_EQ(Bytes(), expected);
  const auto levels = Finish();
  EXPECT_FALSE(levels.empty());
  for (const auto& [key, level] : levels) EXPECT_GE(level.first, 0);
}

// Allocations as jemalloc samples them: the estimate of what is live is unbiased.
TEST_F(LiveHeapTest, IsUnbiased) {
  constexpr int kRounds = 400, kObjects = 2000;
  constexpr double kInterval = 4096;
  constexpr uint64_t kSizes[] = {64, 1024, 16384};
  std::mt19937_64 random(2);
  std::exponential_distribution<double> wait(1 / kInterval);
  std::map<uint64_t, double> sums, squares;
  for (int round = 0; round < kRounds; ++round) {
    LiveHeap heap;
    double left = wait(random);
    for (int i = 0; i < kObjects; ++i) {
      const uint64_t size = kSizes[i % 3];
      left -= static_cast<double>(size);
      if (left > 0) continue;
      left = wait(random);
      heap.Apply(Born(1, size, size, size), kSource, 0);
      if (i % 2 == 0) heap.Apply(Gone(size, size), kSource, 0);
    }
    ProfileDelta delta;
    heap.Finish(delta);
    std::map<uint64_t, double> bytes;
    for (const Sample& sample : delta.samples) {
      bytes[static_cast<uint64_t>(sample.key.stack)] = static_cast<double>(sample.weight);
    }
    for (const uint64_t size : kSizes) {
      sums[size] += bytes[size];
      squares[size] += bytes[size] * bytes[size];
    }
  }
  for (const uint64_t size : kSizes) {
    int live = 0;
    for (int i = 1; i < kObjects; i += 2) live += kSizes[i % 3] == size;
    const double mean = sums[size] / kRounds;
    const double deviation = std::sqrt((squares[size] / kRounds - mean * mean) / kRounds);
    EXPECT_NEAR(mean, live * static_cast<double>(size), 4 * deviation) << size;
    EXPECT_LT(deviation, 0.05 * mean) << size << ": the check would see a bias";
  }
}

}  // namespace
}  // namespace profd
