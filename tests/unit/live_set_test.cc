#include "daemon/source/live_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

namespace profd {
namespace {

using ::testing::IsEmpty;

constexpr ThreadId kProcess{1};
constexpr ThreadId kThread{2};
constexpr StackId kStack{3};

LiveSet::Entry Object(int64_t bytes, ThreadId thread = kThread, StackId stack = kStack) {
  return {.thread = thread, .stack = stack, .bytes = bytes};
}

std::vector<Sample> Changes(LiveSet& set) {
  ProfileDelta delta;
  set.Finish(delta);
  return delta.samples;
}

TEST(LiveSetTest, TellsWhatCameAndWent) {
  LiveSet set(Kind::kInuse);
  set.Add(kProcess, 100, Object(5'000));
  set.Add(kProcess, 200, Object(7'000));
  std::vector<Sample> changes = Changes(set);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].key.kind, Kind::kInuse);
  EXPECT_EQ(changes[0].key.thread, kThread);
  EXPECT_EQ(changes[0].key.stack, kStack);
  EXPECT_EQ(changes[0].weight, 12'000);
  EXPECT_EQ(changes[0].ticks, 2);
  EXPECT_THAT(Changes(set), IsEmpty());

  set.Remove(kProcess, 100);
  changes = Changes(set);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].weight, -5'000);
  EXPECT_EQ(changes[0].ticks, -1);
  EXPECT_EQ(set.size(), 1U);
  EXPECT_EQ(set.bytes(), 7'000);
}

TEST(LiveSetTest, WhatCameAndWentInBetweenIsNoChange) {
  LiveSet set(Kind::kInuse);
  set.Add(kProcess, 100, Object(5'000));
  set.Remove(kProcess, 100);
  EXPECT_THAT(Changes(set), IsEmpty());
}

TEST(LiveSetTest, WhatIsNotKnownIsNotRemoved) {
  LiveSet set(Kind::kInuse);
  set.Remove(kProcess, 100);
  set.RemoveProcess(kProcess);
  set.Add(kProcess, 100, Object(1));
  set.Remove(ThreadId{9}, 100);
  EXPECT_EQ(set.size(), 1U);
}

TEST(LiveSetTest, AnotherOneAtTheSameAddressTakesItsPlace) {
  LiveSet set(Kind::kResident);
  set.Add(kProcess, 100, Object(5'000));
  const uint64_t first = set.processes().at(kProcess).at(100).serial;
  set.Add(kProcess, 100, Object(9'000, ThreadId{7}));
  EXPECT_EQ(set.size(), 1U);
  EXPECT_EQ(set.bytes(), 9'000);
  // What was read of the first is not true of the second.
  set.RemoveIfSame(kProcess, 100, first);
  set.Reweigh(kProcess, 100, first, 1, 1);
  EXPECT_EQ(set.bytes(), 9'000);
  const uint64_t second = set.processes().at(kProcess).at(100).serial;
  set.Reweigh(kProcess, 100, second, 18'000, 2);
  EXPECT_EQ(set.bytes(), 18'000);
  EXPECT_EQ(set.processes().at(kProcess).at(100).one_in, 2U);
  set.RemoveIfSame(kProcess, 100, second);
  EXPECT_EQ(set.size(), 0U);
}

TEST(LiveSetTest, ProcessThatIsGoneHasNothing) {
  LiveSet set(Kind::kInuse);
  for (uint64_t i = 0; i < 10; ++i) set.Add(kProcess, i, Object(10, ThreadId{i % 2 + 1}));
  set.Add(ThreadId{5}, 3, Object(77, ThreadId{5}));
  Changes(set);
  set.RemoveProcess(kProcess);
  int64_t sum = 0;
  for (const Sample& change : Changes(set)) sum += change.weight;
  EXPECT_EQ(sum, -100);
  EXPECT_EQ(set.size(), 1U);
  EXPECT_EQ(set.bytes(), 77);
}

// Whatever happens: the changes sum to what is there.
TEST(LiveSetTest, ChangesSumToTheLevel) {
  LiveSet set(Kind::kResident);
  std::mt19937_64 random(1);
  std::map<std::pair<ThreadId, StackId>, std::pair<int64_t, int64_t>> sums;
  for (int step = 0; step < 20'000; ++step) {
    const ThreadId process{random() % 3 + 1};
    const uint64_t address = random() % 200;
    switch (random() % 8) {
      case 0:
        set.Remove(process, address);
        break;
      case 1:
        if (random() % 100 == 0) set.RemoveProcess(process);
        break;
      default:
        set.Add(process, address,
                Object(static_cast<int64_t>(random() % 1'000), ThreadId{random() % 5 + 1},
                       StackId{random() % 7 + 1}));
    }
    if (step % 50 != 0) continue;
    for (const Sample& change : Changes(set)) {
      auto& [bytes, count] = sums[{change.key.thread, change.key.stack}];
      bytes += change.weight;
      count += change.ticks;
    }
    std::map<std::pair<ThreadId, StackId>, std::pair<int64_t, int64_t>> levels;
    size_t size = 0;
    int64_t all = 0;
    for (const auto& [id, entries] : set.processes()) {
      for (const auto& [unused, entry] : entries) {
        auto& [bytes, count] = levels[{entry.thread, entry.stack}];
        bytes += entry.bytes;
        all += entry.bytes;
        ++count;
        ++size;
      }
    }
    std::erase_if(sums,
                  [](const auto& sum) { return sum.second == std::pair<int64_t, int64_t>(); });
    ASSERT_EQ(sums, levels);
    ASSERT_EQ(set.size(), size);
    ASSERT_EQ(set.bytes(), all);
  }
}

}  // namespace
}  // namespace profd
