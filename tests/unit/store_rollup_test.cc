// What happens to data as it ages: sums stay, detail goes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "daemon/store/aging.h"
#include "daemon/store/memory_store.h"
#include "daemon/store/rollup.h"
#include "tests/support/random_segment.h"

namespace profd {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kTick = 10'000'000;
constexpr int64_t kHour = 3600;

size_t Index(Reason reason) { return static_cast<size_t>(reason); }
size_t Index(Loss loss) { return static_cast<size_t>(loss); }

ThreadInfo Info(uint64_t id, bool exited = false) {
  return {.id = ThreadId{id},
          .pid = 100 + static_cast<int32_t>(id % 2),
          .tid = static_cast<int32_t>(id),
          .target = 1,
          .name = "worker",
          .process = "server",
          .exited = exited};
}

// The second number `n` in which one thread waited in one place.
ProfileDelta Second(int64_t n, uint64_t thread) {
  ProfileDelta delta;
  delta.begin_ns = n * kSecond;
  delta.end_ns = (n + 1) * kSecond;
  delta.books_on = delta.switch_on = delta.tick_on = true;
  delta.tick_interval_ns = kTick;
  delta.ticks = 100;
  delta.threads = {Info(thread)};
  delta.stacks = {{.id = StackId{9}, .frames = {1, 2, 3}}};
  LedgerDelta ledger;
  ledger.wall_ns = ledger.off_ns[Index(Reason::kLock)] = kSecond;
  delta.ledgers.push_back({ThreadId{thread}, ledger});
  delta.samples.push_back(
      {{ThreadId{thread}, StackId{9}, 5, 202, Reason::kLock}, 100 * kTick, 100});
  return delta;
}

// Whether the merged window has what is known of an object, and the samples that name it.
bool KnowsObject(const MergedProfile& profile, StackId object) {
  const bool known = std::any_of(profile.stacks.begin(), profile.stacks.end(),
                                 [&](const auto& stack) { return stack->id == object; });
  const bool named =
      std::any_of(profile.threads.begin(), profile.threads.end(), [&](const MergedThread& thread) {
        return std::any_of(thread.samples.begin(), thread.samples.end(),
                           [&](const Sample& s) { return ObjectOf(s.key) == object; });
      });
  return known && named;
}

MergedProfile Merge(const MemoryStore& store, int64_t begin, int64_t end) {
  auto merged = store.MergeLevels({begin * kSecond, end * kSecond}, nullptr);
  EXPECT_TRUE(merged.ok()) << merged.status();
  return merged.ok() ? *std::move(merged) : MergedProfile{};
}

int64_t Wall(const MergedProfile& profile) {
  int64_t sum = 0;
  for (const MergedThread& thread : profile.threads) sum += thread.ledger.Get().wall_ns;
  return sum;
}

int64_t Ticks(const MergedProfile& profile) {
  int64_t sum = 0;
  for (const MergedThread& thread : profile.threads) {
    for (const Sample& sample : thread.samples) sum += sample.ticks;
  }
  return sum;
}

TEST(StoreRollupTest, SumsStayAndDetailGoes) {
  MemoryStore store;
  for (int64_t n = 0; n < kHour; n++) ASSERT_TRUE(store.Append(Second(n, 1)).ok());
  const MergedProfile all = Merge(store, 0, kHour);
  EXPECT_EQ(all.covered.begin_ns, 0);
  EXPECT_EQ(all.covered.end_ns, kHour * kSecond);
  EXPECT_EQ(Wall(all), kHour * kSecond);
  EXPECT_EQ(Ticks(all), kHour * 100);
  EXPECT_EQ(all.ticks, kHour * 100);
  EXPECT_EQ(all.tick_interval_ns, kTick);
  EXPECT_EQ(all.tick_ns, kHour * kSecond);
  EXPECT_EQ(all.losses, LossCounts{});
  EXPECT_EQ(all.coarsest_ns, kAgingLevels[2].slice_ns);
  EXPECT_EQ(Merge(store, kHour - 60, kHour).coarsest_ns, kSecond);
  // Numbers stand for what is covered, however coarse.
  for (int64_t begin = 7; begin < kHour; begin += 211) {
    const MergedProfile part = Merge(store, begin, begin + 100);
    EXPECT_EQ(Wall(part), part.covered.end_ns - part.covered.begin_ns) << begin;
    EXPECT_EQ(part.tick_ns, Wall(part));
    EXPECT_LE(std::abs(part.covered.begin_ns - begin * kSecond), part.coarsest_ns / 2);
  }
}

TEST(StoreRollupTest, ObjectsStayWithTheWaitsForThem) {
  MemoryStore store;
  const StackId sampled{PROFD_OBJECT_BIT | 1}, waited{PROFD_OBJECT_BIT | 3};
  for (int64_t n = 0; n < kHour; n++) {
    ProfileDelta delta = Second(n, 1);
    delta.samples[0].key.argument = static_cast<uint64_t>(sampled);
    if (n == 0) {
      delta.stacks.push_back({.id = sampled, .kernel_frames = 2, .frames = {7, 8}});
      delta.stacks.push_back({.id = waited, .kernel_frames = 1, .frames = {9}});
      delta.long_work_ns = 1;
      delta.long_waits.push_back({.key = {.thread = ThreadId{1},
                                          .stack = StackId{9},
                                          .argument = static_cast<uint64_t>(waited),
                                          .syscall = 0},
                                  .begin_ns = 1,
                                  .duration_ns = kSecond});
    }
    ASSERT_TRUE(store.Append(std::move(delta)).ok());
  }
  EXPECT_TRUE(KnowsObject(Merge(store, 0, 60), sampled)) << "rolled up";
  EXPECT_TRUE(KnowsObject(Merge(store, kHour - 10, kHour), sampled)) << "raw";
  const MergedProfile oldest = Merge(store, 0, 60);
  EXPECT_TRUE(std::any_of(oldest.stacks.begin(), oldest.stacks.end(),
                          [&](const auto& stack) { return stack->id == waited; }));
}

TEST(StoreRollupTest, LevelsArePreciseAtTheEdgesOfSlices) {
  MemoryStore store;
  std::map<int64_t, int64_t> held;  // by end of the second
  int64_t now = 0;
  for (int64_t n = 0; n < kHour; n++) {
    ProfileDelta delta = Second(n, 1 + static_cast<uint64_t>(n % 3));
    const int64_t change = n % 7 == 6 ? -600 : 150;
    now += change;
    held[(n + 1) * kSecond] = now;
    delta.samples.push_back(
        {.key = {.thread = ThreadId{1}, .stack = StackId{9}, .kind = Kind::kInuse},
         .weight = change,
         .ticks = change / 150});
    delta.threads.push_back(Info(1));
    ASSERT_TRUE(store.Append(std::move(delta)).ok());
  }
  for (int64_t end = 20; end <= kHour; end += 97) {
    const MergedProfile merged = Merge(store, end - 20, end);
    int64_t weight = 0;
    for (const MergedThread& thread : merged.threads) {
      for (const Sample& sample : thread.samples) {
        if (sample.key.kind == Kind::kInuse) weight += sample.weight;
      }
    }
    EXPECT_EQ(weight, held[merged.covered.end_ns]) << end;
  }
}

TEST(StoreRollupTest, BurstsKeepTheirSquares) {
  MemoryStore store;
  double squares = 0;
  for (int64_t n = 0; n < 1500; n++) {
    ProfileDelta delta = Second(n, 1);
    for (uint64_t site = 0; site < 2; site++) {
      const auto weight = static_cast<int64_t>((static_cast<uint64_t>(n) * 37 + site) % 1000 + 1);
      squares += static_cast<double>(weight) * static_cast<double>(weight);
      delta.samples.push_back({.key = {.thread = ThreadId{1},
                                       .stack = StackId{9 + site},
                                       .argument = PROFD_BURST_ARGUMENT,
                                       .kind = Kind::kAlloc},
                               .weight = weight,
                               .ticks = 1});
    }
    ASSERT_TRUE(store.Append(std::move(delta)).ok());
  }
  double kept = 0;
  for (const MergedThread& thread : Merge(store, 0, 1500).threads) {
    for (const Sample& sample : thread.samples) kept += sample.squares;
  }
  EXPECT_DOUBLE_EQ(kept, squares);
}

// Threads that come and go by the hundred are added to their process; no time goes.
TEST(StoreRollupTest, ExitedThreadsAreFoldedIntoTheirProcess) {
  constexpr int64_t kSeconds = 1003;
  constexpr uint64_t kPerSecond = 60;
  MemoryStore store;
  uint64_t id = 10;
  int64_t wall = 0;
  for (int64_t n = 0; n < kSeconds; n++) {
    ProfileDelta delta = Second(n, 1);
    wall += kSecond;
    for (uint64_t i = 0; i < kPerSecond; i++, id++) {
      delta.threads.push_back(Info(id, true));
      LedgerDelta ledger;
      ledger.wall_ns = ledger.on_cpu_ns = 1000;
      wall += 1000;
      delta.ledgers.push_back({ThreadId{id}, ledger});
      delta.samples.push_back({{ThreadId{id}, StackId{9}, 5, 202, Reason::kLock}, kTick, 1});
    }
    ASSERT_TRUE(store.Append(std::move(delta)).ok());
  }
  const MergedProfile merged = Merge(store, 0, kSeconds);
  EXPECT_EQ(Wall(merged), wall);
  EXPECT_EQ(Ticks(merged), kSeconds * static_cast<int64_t>(100 + kPerSecond));
  // Those of the last seconds are still themselves.
  EXPECT_LT(merged.threads.size(), 1000U);
  EXPECT_GT(merged.folded_threads, 50'000);
  std::set<int32_t> processes;
  int64_t alive = 0;
  for (const MergedThread& thread : merged.threads) {
    if (thread.info->id == ThreadId{1}) alive = thread.ledger.Get().wall_ns;
    if (thread.info->name == "[exited threads]") {
      EXPECT_TRUE(processes.insert(thread.info->pid).second) << "one row for each process";
      EXPECT_EQ(thread.info->process, "server");
    }
  }
  EXPECT_EQ(alive, kSeconds * kSecond) << "a thread that lives is not folded";
  EXPECT_THAT(processes, SizeIs(2));
  EXPECT_EQ(Merge(store, kSeconds - 3, kSeconds).folded_threads, 0);
}

// Processes that had one PID in turn stay two.
TEST(StoreRollupTest, ExitedThreadsOfAReusedPidStayApart) {
  ThreadInfo first = Info(2, true), second = Info(4, true);
  first.process_start_ns = 1'000;
  second.process_start_ns = 2'000;
  EXPECT_EQ(ExitedThreadsOf(first)->id, ExitedThreadsOf(first)->id);
  EXPECT_NE(ExitedThreadsOf(first)->id, ExitedThreadsOf(second)->id);
  EXPECT_EQ(ExitedThreadsOf(second)->process_start_ns, 2'000);
}

// Levels of threads that exited stay theirs: what is taken away later must find them.
TEST(StoreRollupTest, LevelsOfFoldedThreadsStayTheirs) {
  MemoryStore store;
  for (int64_t n = 0; n < 2000; n++) {
    ProfileDelta delta = Second(n, 1);
    for (uint64_t i = 0; i < 40; i++) {
      const uint64_t id = 10 + static_cast<uint64_t>(n) * 40 + i;
      delta.threads.push_back(Info(id, true));
      delta.samples.push_back(
          {.key = {.thread = ThreadId{id}, .stack = StackId{9}, .kind = Kind::kResident},
           .weight = n < 10 ? 4096 : 0,
           .ticks = n < 10 ? 1 : 0});
    }
    ASSERT_TRUE(store.Append(std::move(delta)).ok());
  }
  const auto levels = [&](int64_t begin, int64_t end) {
    std::map<std::string, int64_t> weights;
    for (const MergedThread& thread : Merge(store, begin, end).threads) {
      for (const Sample& sample : thread.samples) {
        if (sample.key.kind != Kind::kResident || sample.weight == 0) continue;
        EXPECT_EQ(sample.key.thread, thread.info->id);
        weights[thread.info->process] += sample.weight;
      }
    }
    return weights;
  };
  const std::map<std::string, int64_t> all = {{"server", 400 * 4096}};
  EXPECT_EQ(levels(1990, 2000), all);
  EXPECT_EQ(levels(100, 300), all);
  // Now they go.
  ProfileDelta delta = Second(2000, 1);
  for (uint64_t id = 10; id < 410; id++) {
    delta.samples.push_back(
        {.key = {.thread = ThreadId{id}, .stack = StackId{9}, .kind = Kind::kResident},
         .weight = -4096,
         .ticks = -1});
  }
  ASSERT_TRUE(store.Append(std::move(delta)).ok());
  EXPECT_EQ(levels(100, 300), all);
  EXPECT_THAT(levels(1990, 2001), IsEmpty());
}

// A full store loses detail before it loses time.
TEST(StoreRollupTest, RollsUpBeforeItDrops) {
  std::mt19937_64 random(5);
  MemoryStore store({.max_bytes = 1 << 19});
  for (int64_t n = 0; n < kHour; n++) {
    ProfileDelta delta = Second(n, 1);
    delta.ledgers.clear();
    for (uint64_t thread = 1; thread <= 12; thread++) {
      LedgerDelta ledger = RandomLedger(&random);
      ledger.wall_ns = kSecond;
      delta.ledgers.push_back({ThreadId{thread}, ledger});
    }
    ASSERT_TRUE(store.Append(std::move(delta)).ok());
    ASSERT_LE(store.Bytes(), 1U << 19);
  }
  const MergedProfile merged = Merge(store, 0, kHour);
  EXPECT_EQ(merged.losses[Index(Loss::kStoreDropped)], 0U);
  EXPECT_EQ(Wall(merged), 12 * kHour * kSecond);
  EXPECT_EQ(merged.coarsest_ns, kAgingLevels[kAgingTop].slice_ns);
}

SegmentPtr Damaged(SegmentPtr segment) {
  auto damaged = std::make_shared<StoredSegment>(*segment);
  damaged->blob[damaged->blob.size() / 2] ^= 1;
  return damaged;
}

SegmentPtr Sealed(int64_t second) {
  Intake intake;
  const SegmentPtr raw = intake.Take(Second(second, 1));
  return SealedSegment(raw->raw, 0);
}

TEST(StoreRollupTest, DamageIsALoss) {
  const std::vector<SegmentPtr> segments = {Sealed(1), Damaged(Sealed(2)), Sealed(3)};
  const Segment rolled = RollUp(segments, {.slice_ns = 60 * kSecond});
  ASSERT_THAT(rolled.slices, SizeIs(1));
  EXPECT_EQ(rolled.slices[0].header.losses[Index(Loss::kStoreDamaged)], 1U);
  EXPECT_EQ(rolled.slices[0].header.tick_ns, 2 * kSecond);

  Merger merger({0, 10 * kSecond}, nullptr);
  for (size_t i = segments.size(); i-- > 0;) merger.Add({segments[i], 0, 1});
  const MergedProfile merged = std::move(merger).Finish();
  EXPECT_EQ(merged.losses[Index(Loss::kStoreDamaged)], 1U);
  EXPECT_EQ(Wall(merged), 2 * kSecond);

  EXPECT_THAT(RollUp(std::vector{Damaged(Sealed(2))}, {}).slices, IsEmpty());
}

TEST(AgingTest, RollsUpWholeStretchesOldestFirst) {
  std::deque<SegmentPtr> segments;
  for (int64_t n = 0; n < 12; n++) {
    auto segment = std::make_shared<StoredSegment>();
    segment->spans = {{n * 10 * kSecond, (n + 1) * 10 * kSecond}};
    segments.push_back(segment);
  }
  const int64_t age = kAgingLevels[1].age_ns;
  EXPECT_FALSE(NextRollup(segments, 60 * kSecond + age - 1, 0).has_value());
  const auto step = NextRollup(segments, 60 * kSecond + age, 0);
  ASSERT_TRUE(step.has_value());
  EXPECT_EQ(step->begin, 0U);
  EXPECT_EQ(step->end, 6U);
  EXPECT_EQ(step->level, 1);
  // In haste, sooner.
  EXPECT_TRUE(NextRollup(segments, 60 * kSecond + age / 4, 2).has_value());
  EXPECT_FALSE(NextRollup(segments, 60 * kSecond + age / 4, 1).has_value());
}

}  // namespace
}  // namespace profd
