#include "daemon/source/told_heap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <tuple>

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr int32_t kPid = 17;
constexpr WatchId kModule{3};
constexpr LiveSampling kSource = {.since_ns = 1'000};

profd_told_record Came(uint64_t address, uint64_t size, uint64_t weight, uint64_t stack = 7,
                       uint64_t thread = 5) {
  return {.type = PROFD_RECORD_TOLD,
          .watch_id = static_cast<uint32_t>(kModule),
          .time = 2'000,
          .thread_id = thread,
          .address = address,
          .size = size,
          .weight = weight,
          .stack = stack,
          .pid = kPid,
          .gone = 0};
}

profd_told_record Gone(uint64_t address, uint64_t stack = 8, uint64_t thread = 6) {
  profd_told_record record = Came(address, 0, 0, stack, thread);
  record.gone = 1;
  return record;
}

using Key = std::tuple<Kind, uint64_t, uint64_t>;  // and thread, stack

std::map<Key, std::pair<int64_t, int64_t>> Samples(const ProfileDelta& delta) {
  std::map<Key, std::pair<int64_t, int64_t>> samples;
  for (const Sample& sample : delta.samples) {
    auto& sum = samples[{sample.key.kind, static_cast<uint64_t>(sample.key.thread),
                         static_cast<uint64_t>(sample.key.stack)}];
    sum.first += sample.weight;
    sum.second += sample.ticks;
  }
  return samples;
}

ProfileDelta Finish(ToldHeap& heap) {
  ProfileDelta delta;
  heap.Finish(delta);
  return delta;
}

LiveTotals Live(const ToldHeap& heap) {
  const auto live = heap.Live();
  const auto found = live.find(kModule);
  return found == live.end() ? LiveTotals{} : found->second;
}

TEST(ToldHeapTest, WhoAllocatedWhoFreedAndWhatIsLive) {
  ToldHeap heap;
  heap.Apply(Came(0x1000, 100, 8'000), kSource);
  heap.Apply(Came(0x2000, 400, 8'000), kSource);
  heap.Apply(Came(0x3000, 50, 5'000, 9), kSource);
  heap.Apply(Gone(0x1000), kSource);
  const ProfileDelta delta = Finish(heap);
  // Freed is what the object stands for, by who freed it; what came and went is no change.
  EXPECT_THAT(Samples(delta),
              UnorderedElementsAre(Pair(Key{Kind::kAlloc, 5, 7}, Pair(16'000, 2)),
                                   Pair(Key{Kind::kAlloc, 5, 9}, Pair(5'000, 1)),
                                   Pair(Key{Kind::kFree, 6, 8}, Pair(8'000, 1)),
                                   Pair(Key{Kind::kInuse, 5, 7}, Pair(8'000, 20)),
                                   Pair(Key{Kind::kInuse, 5, 9}, Pair(5'000, 100))));
  ASSERT_EQ(delta.ledgers.size(), 2U);
  for (const ThreadLedger& ledger : delta.ledgers) {
    const bool freed = ledger.thread == ThreadId{6};
    const HeapDelta& sum = freed ? ledger.delta.freed : ledger.delta.allocated;
    EXPECT_EQ(sum.bytes, freed ? 8'000 : 21'000);
    EXPECT_EQ(sum.seen_bytes, sum.bytes);
    EXPECT_EQ(sum.events, freed ? 1 : 3);
    EXPECT_EQ(sum.gaps, 0);
  }
  EXPECT_EQ(heap.totals().at(kModule).totals.allocated.bytes, 21'000);
  EXPECT_EQ(heap.totals().at(kModule).totals.freed.bytes, 8'000);
  EXPECT_EQ(Live(heap).bytes, 13'000);
  EXPECT_EQ(Live(heap).objects, 120);
  EXPECT_EQ(Live(heap).since_ns, 1'000);
  EXPECT_EQ(heap.records(), 4);

  // Nothing is told twice.
  EXPECT_THAT(Finish(heap).samples, IsEmpty());
  heap.Apply(Gone(0x2000), kSource);
  const ProfileDelta next = Finish(heap);
  EXPECT_THAT(Samples(next),
              UnorderedElementsAre(Pair(Key{Kind::kFree, 6, 8}, Pair(8'000, 1)),
                                   Pair(Key{Kind::kInuse, 5, 7}, Pair(-8'000, -20))));
  ASSERT_EQ(next.ledgers.size(), 1U);
}

TEST(ToldHeapTest, WhatIsNotKnownIsLeftOut) {
  ToldHeap heap;
  heap.Apply(Gone(0x1000), kSource);
  profd_told_record early = Came(0x1000, 100, 8'000);
  early.time = 999;
  heap.Apply(early, kSource);
  EXPECT_THAT(Finish(heap).samples, IsEmpty());
  EXPECT_EQ(heap.records(), 2);
  // Another process has the same address.
  heap.Apply(Came(0x1000, 100, 8'000), kSource);
  profd_told_record other = Gone(0x1000);
  other.pid = kPid + 1;
  heap.Apply(other, kSource);
  EXPECT_EQ(Live(heap).bytes, 8'000);
  EXPECT_EQ(heap.totals().at(kModule).totals.freed.events, 0);
}

// Nobody told that the one before is gone.
TEST(ToldHeapTest, AnAddressHoldsOneObject) {
  ToldHeap heap;
  heap.Apply(Came(0x1000, 100, 8'000), kSource);
  heap.Apply(Came(0x1000, 100, 4'000, 9), kSource);
  EXPECT_EQ(Live(heap).bytes, 4'000);
  heap.Apply(Gone(0x1000), kSource);
  heap.Apply(Gone(0x1000), kSource);
  EXPECT_EQ(Live(heap).bytes, 0);
  EXPECT_EQ(heap.totals().at(kModule).totals.allocated.bytes, 12'000);
  EXPECT_EQ(heap.totals().at(kModule).totals.freed.bytes, 4'000);
}

TEST(ToldHeapTest, WithoutAStackItIsGoneAllTheSame) {
  ToldHeap heap;
  heap.Apply(Came(0x1000, 100, 8'000), kSource);
  Finish(heap);
  heap.Apply(Gone(0x1000, 0), kSource);
  const ProfileDelta delta = Finish(heap);
  EXPECT_THAT(Samples(delta), ElementsAre(Pair(Key{Kind::kInuse, 5, 7}, Pair(-8'000, -80))));
  ASSERT_EQ(delta.ledgers.size(), 1U);
  EXPECT_EQ(delta.ledgers[0].delta.freed.bytes, 8'000);
}

TEST(ToldHeapTest, AnExecAndAnEndLeaveNothing) {
  ToldHeap heap;
  heap.Apply(Came(0x1000, 100, 8'000), kSource);
  Finish(heap);
  heap.OnExec(kPid, 3'000);
  EXPECT_THAT(Samples(Finish(heap)), ElementsAre(Pair(Key{Kind::kInuse, 5, 7}, Pair(-8'000, -80))));
  EXPECT_EQ(Live(heap).since_ns, 3'000);
  heap.Apply(Came(0x1000, 100, 8'000), kSource);
  heap.KeepOnly({{{kPid, kModule}, kSource}});
  EXPECT_EQ(Live(heap).bytes, 8'000);
  // Counted anew, as after a pause.
  heap.KeepOnly({{{kPid, kModule}, {.since_ns = 5'000}}});
  EXPECT_EQ(Live(heap).bytes, 0);
  EXPECT_THAT(Finish(heap).samples, ::testing::SizeIs(1)) << "what was allocated in between";
}

TEST(ToldHeapTest, TotalsOfModulesThatAreForgottenGo) {
  ToldHeap heap;
  heap.Apply(Came(0x1000, 100, 8'000), kSource);
  heap.KeepOnlyModules([](WatchId id) { return id == kModule; });
  EXPECT_EQ(heap.totals().at(kModule).totals.allocated.bytes, 8'000);
  heap.KeepOnlyModules([](WatchId) { return false; });
  EXPECT_TRUE(heap.totals().empty());
}

TEST(ToldHeapTest, MemoryIsBounded) {
  ToldHeap heap(2);
  for (uint64_t i = 1; i <= 5; ++i) heap.Apply(Came(i << 12, 100, 8'000), kSource);
  EXPECT_EQ(Live(heap).bytes, 16'000);
  EXPECT_EQ(heap.dropped(), 3U);
  EXPECT_EQ(heap.totals().at(kModule).totals.allocated.bytes, 40'000);
  for (uint64_t i = 1; i <= 5; ++i) heap.Apply(Gone(i << 12), kSource);
  EXPECT_EQ(Live(heap).bytes, 0);
  EXPECT_EQ(heap.totals().at(kModule).totals.freed.bytes, 16'000);
  heap.Apply(Came(0x1000, 100, 8'000), kSource);
  EXPECT_EQ(Live(heap).bytes, 8'000) << "there is place again";
}

TEST(ToldHeapTest, WeightsTellHowDenselyWasSampled) {
  for (const double interval : {4096.0, 524288.0}) {
    for (const double size : {16.0, 1000.0, 100'000.0, 1'000'000.0}) {
      const double sampled = -std::expm1(-size / interval);
      if (sampled > 0.999) continue;  // says nothing of the interval
      EXPECT_EQ(SampleBytesOf(static_cast<uint64_t>(size),
                              static_cast<uint64_t>(std::llround(size / sampled))),
                static_cast<uint64_t>(interval))
          << size << " of " << interval;
    }
  }
  EXPECT_EQ(SampleBytesOf(1000, 1000), 1U);
  EXPECT_EQ(SampleBytesOf(1000, 1), 1U);
  EXPECT_EQ(SampleBytesOf(0, 0), 1U);
  EXPECT_EQ(SampleBytesOf(0, 4096), 4096U);
  EXPECT_EQ(SampleBytesOf(1, uint64_t{1} << 60), uint64_t{1} << 47);
  EXPECT_EQ(SampleBytesOf(~uint64_t{0}, ~uint64_t{0}), 1U);
}

}  // namespace
}  // namespace profd
