// Histograms of threads, from their records to an answer's window.
#include "daemon/source/wait_durations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "daemon/store/memory_store.h"

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kSecond = 1'000'000'000;
constexpr uint64_t kMs = 1'000'000;

// An account to which waits are added as the kernel's program does.
class Account {
 public:
  Account() { record_.thread_id = 7; }
  void Wait(size_t place, profd_reason reason, uint64_t ns, uint32_t times = 1) {
    profd_durations& of = record_.durations[place];
    of.reason = reason;
    const uint32_t drain = record_.duration_drain;
    if (of.drains[drain & 1] != drain) of.longest[drain & 1] = 0;
    of.drains[drain & 1] = drain;
    of.longest[drain & 1] = std::max(of.longest[drain & 1], ns);
    of.counts[profd_duration_bucket(ns)] += times;
  }
  void GiveAway(size_t place) { record_.durations[place] = {}; }
  void BeginDrain() { ++record_.duration_drain; }
  profd_thread_record& record() { return record_; }

 private:
  profd_thread_record record_{};
};

// Reason, bucket, number, longest.
using Row = std::tuple<Reason, uint64_t, int64_t, int64_t>;

template <typename Samples>
std::vector<Row> Rows(const Samples& samples) {
  std::vector<Row> rows;
  for (const Sample& s : samples) {
    EXPECT_EQ(s.key.kind, Kind::kDuration);
    EXPECT_EQ(s.key.thread, ThreadId{7});
    rows.emplace_back(s.key.reason, s.key.argument, s.ticks, s.weight);
  }
  return rows;
}

class WaitDurationsTest : public ::testing::Test {
 protected:
  std::vector<Row> Drain() {
    account_.BeginDrain();
    std::vector<Sample> samples;
    durations_.Apply(account_.record(), &samples);
    return Rows(samples);
  }
  static uint64_t BucketOf(uint64_t ns) { return profd_duration_bucket(ns); }

  Account account_;
  WaitDurations durations_;
};

TEST_F(WaitDurationsTest, WhatGrewIsTold) {
  account_.Wait(0, PROFD_REASON_RUNQUEUE, 500, 4);
  account_.Wait(1, PROFD_REASON_SLEEP, 51 * kMs, 3);
  account_.Wait(1, PROFD_REASON_SLEEP, 52 * kMs);
  account_.Wait(1, PROFD_REASON_SLEEP, 10 * kMs);
  EXPECT_THAT(Drain(), ElementsAre(Row{Reason::kRunQueue, 0, 4, 500},
                                   Row{Reason::kSleep, BucketOf(10 * kMs), 1, 0},
                                   Row{Reason::kSleep, BucketOf(51 * kMs), 4, 52 * kMs}));
  EXPECT_THAT(Drain(), IsEmpty());
  account_.Wait(1, PROFD_REASON_SLEEP, 11 * kMs);
  EXPECT_THAT(Drain(), ElementsAre(Row{Reason::kSleep, BucketOf(11 * kMs), 1, 11 * kMs}));
}

// Of a drain long ago it is not that of the waits since.
TEST_F(WaitDurationsTest, TheLongestIsOfThisDrainOrTheOneBefore) {
  account_.Wait(1, PROFD_REASON_LOCK, 52 * kMs);
  Drain();
  Drain();
  account_.record().durations[1].counts[BucketOf(52 * kMs)]++;
  EXPECT_THAT(Drain(), ElementsAre(Row{Reason::kLock, BucketOf(52 * kMs), 1, 0}));
}

TEST_F(WaitDurationsTest, APlaceCanChangeHands) {
  account_.Wait(1, PROFD_REASON_FAULT, kMs, 9);
  account_.Wait(2, PROFD_REASON_LOCK, kMs, 5);
  Drain();
  account_.GiveAway(1);
  account_.Wait(1, PROFD_REASON_NET, kMs, 2);
  EXPECT_THAT(Drain(), ElementsAre(Row{Reason::kNet, BucketOf(kMs), 2, kMs}));
  // Back, unseen by any drain.
  account_.GiveAway(1);
  account_.Wait(1, PROFD_REASON_NET, kMs);
  EXPECT_THAT(Drain(), ElementsAre(Row{Reason::kNet, BucketOf(kMs), 1, kMs}));
}

// Two drains later it is not known any more which was the longest.
TEST_F(WaitDurationsTest, ATornReadingIsMadeUpForByTheNext) {
  account_.Wait(1, PROFD_REASON_LOCK, kMs);
  account_.record().durations_torn = 1;
  EXPECT_THAT(Drain(), IsEmpty());
  account_.record().durations_torn = 0;
  EXPECT_THAT(Drain(), ElementsAre(Row{Reason::kLock, BucketOf(kMs), 1, 0}));
}

TEST_F(WaitDurationsTest, CountsWrapAround) {
  uint32_t& count = account_.record().durations[0].counts[3];
  count = 0x7fff'ffff;
  Drain();
  count += 0x7fff'ffff;
  Drain();
  count += 5;
  EXPECT_THAT(Drain(), ElementsAre(Row{Reason::kRunQueue, 3, 5, 0}));
}

// Numbers add up in the store, and the longest stays the longest, however old they are.
TEST(StoredDurationsTest, AWindowHasTheSumAndTheLongest) {
  MemoryStore store;
  const uint64_t bucket = profd_duration_bucket(50 * kMs);
  constexpr int64_t kSeconds = 1'800;
  for (int64_t n = 0; n < kSeconds; ++n) {
    ProfileDelta delta;
    delta.begin_ns = n * kSecond;
    delta.end_ns = (n + 1) * kSecond;
    delta.switch_on = delta.tick_on = true;
    delta.tick_interval_ns = 10'000'000;
    if (n == 0) delta.threads.push_back({.id = ThreadId{7}, .pid = 1, .tid = 1, .name = "napper"});
    const SampleKey key = {.thread = ThreadId{7},
                           .argument = bucket,
                           .reason = Reason::kSleep,
                           .kind = Kind::kDuration};
    // Two readings in one drain.
    delta.samples.push_back({.key = key, .weight = 50'000'000 + n, .ticks = 15});
    delta.samples.push_back({.key = key, .weight = 50'000'000, .ticks = 5});
    ASSERT_TRUE(store.Append(std::move(delta)).ok());
  }
  const auto merged = store.Merge({0, kSeconds * kSecond}, [](const ThreadInfo&) { return true; });
  ASSERT_TRUE(merged.ok());
  ASSERT_EQ(merged->threads.size(), 1U);
  EXPECT_THAT(Rows(merged->threads[0].samples),
              ElementsAre(Row{Reason::kSleep, bucket, 20 * kSeconds, 50'000'000 + kSeconds - 1}));
}

}  // namespace
}  // namespace profd
