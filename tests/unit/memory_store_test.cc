#include "daemon/store/memory_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kTick = 10'000'000;

size_t Index(Reason reason) { return static_cast<size_t>(reason); }
size_t Index(Loss loss) { return static_cast<size_t>(loss); }

ThreadInfo Info(uint64_t id, const std::string& name = "worker") {
  return {.id = ThreadId{id},
          .pid = 100,
          .tid = static_cast<int32_t>(id),
          .target = 1,
          .name = name,
          .process = "server"};
}

StackTrace Stack(uint64_t id, size_t frames = 10) {
  return {.id = StackId{id}, .frames = std::vector<uint64_t>(frames, id)};
}

LedgerDelta Idle(int64_t wall, Reason reason = Reason::kPoll) {
  LedgerDelta ledger;
  ledger.wall_ns = wall;
  ledger.off_ns[Index(reason)] = wall;
  return ledger;
}

Sample MakeSample(uint64_t thread, uint64_t stack, int64_t ticks, Reason reason = Reason::kPoll,
                  uint64_t argument = 5) {
  return {{ThreadId{thread}, StackId{stack}, argument, 232, reason}, ticks * kTick, ticks};
}

ProfileDelta Delta(int64_t begin, int64_t end) {
  ProfileDelta delta;
  delta.begin_ns = begin;
  delta.end_ns = end;
  delta.books_on = delta.switch_on = delta.tick_on = true;
  delta.tick_interval_ns = kTick;
  delta.ticks = 100;
  return delta;
}

// The second number `n`, in which one thread was idle.
ProfileDelta IdleSecond(int64_t n, uint64_t thread = 1, uint64_t stack = 9) {
  ProfileDelta delta = Delta(n * kSecond, (n + 1) * kSecond);
  delta.ledgers.push_back({ThreadId{thread}, Idle(kSecond)});
  delta.samples.push_back(MakeSample(thread, stack, 100));
  return delta;
}

MergedProfile MergeAll(const Store& store) {
  absl::StatusOr<MergedProfile> merged =
      store.Merge({0, std::numeric_limits<int64_t>::max()}, nullptr);
  EXPECT_TRUE(merged.ok()) << merged.status();
  return merged.ok() ? *std::move(merged) : MergedProfile{};
}

void ExpectEqual(const LedgerDelta& a, const LedgerDelta& b) {
  EXPECT_EQ(a.wall_ns, b.wall_ns);
  EXPECT_EQ(a.on_cpu_ns, b.on_cpu_ns);
  EXPECT_EQ(a.off_ns, b.off_ns);
  EXPECT_EQ(a.waits, b.waits);
  EXPECT_EQ(a.unattributed_ns, b.unattributed_ns);
  EXPECT_EQ(a.books_on_cpu_ns, b.books_on_cpu_ns);
  EXPECT_EQ(a.books_runqueue_ns, b.books_runqueue_ns);
  EXPECT_EQ(a.voluntary_switches, b.voluntary_switches);
  EXPECT_EQ(a.involuntary_switches, b.involuntary_switches);
  EXPECT_EQ(a.minor_faults, b.minor_faults);
  EXPECT_EQ(a.major_faults, b.major_faults);
  EXPECT_EQ(a.read_bytes, b.read_bytes);
  EXPECT_EQ(a.write_bytes, b.write_bytes);
  for (const auto& [one, other] :
       {std::pair{&a.allocated, &b.allocated}, std::pair{&a.freed, &b.freed}}) {
    EXPECT_EQ(one->bytes, other->bytes);
    EXPECT_EQ(one->seen_bytes, other->seen_bytes);
    EXPECT_EQ(one->unseen_bytes, other->unseen_bytes);
    EXPECT_EQ(one->late_bytes, other->late_bytes);
    EXPECT_EQ(one->events, other->events);
    EXPECT_EQ(one->gaps, other->gaps);
  }
}

// A thread at rest is kept as one whose account says so, whatever else there is of it.
TEST(MemoryStoreTest, RestIsAnAccount) {
  for (const std::optional<Reason> reason :
       {std::optional(Reason::kLock), std::optional<Reason>()}) {
    MemoryStore told, rested;
    for (int64_t n = 1; n <= 3; n++) {
      LedgerDelta idle = Idle(kSecond, reason.value_or(Reason::kOther));
      if (!reason) std::swap(idle.off_ns[Index(Reason::kOther)], idle.unattributed_ns);
      ProfileDelta delta = Delta(n * kSecond, (n + 1) * kSecond);
      for (const uint64_t thread : {1, 2, 3}) delta.threads.push_back(Info(thread));
      delta.stacks = {Stack(9)};
      delta.samples = {MakeSample(1, 9, 100), MakeSample(3, 9, 2)};
      if (n == 2) delta.ledgers.push_back({ThreadId{2}, Idle(500, Reason::kPoll)});
      ProfileDelta same = delta;
      for (const uint64_t thread : {3, 1, 2}) {
        delta.ledgers.push_back({ThreadId{thread}, idle});
        same.resting.push_back({ThreadId{thread}, kSecond, reason});
      }
      same.resting.push_back({ThreadId{4}, 0, reason});
      ASSERT_TRUE(told.Append(delta).ok());
      ASSERT_TRUE(rested.Append(same).ok());
    }
    const MergedProfile a = MergeAll(told), b = MergeAll(rested);
    ASSERT_EQ(a.threads.size() + 1, b.threads.size()) << "the one that rested for no time";
    for (size_t i = 0; i < a.threads.size(); i++) {
      EXPECT_EQ(a.threads[i].info->id, b.threads[i].info->id);
      ExpectEqual(a.threads[i].ledger.Get(), b.threads[i].ledger.Get());
      ASSERT_EQ(a.threads[i].samples.size(), b.threads[i].samples.size());
      auto other = b.threads[i].samples.begin();
      for (const Sample& sample : a.threads[i].samples) {
        EXPECT_EQ(sample.weight, other->weight);
        EXPECT_EQ(sample.ticks, other->ticks);
        ++other;
      }
    }
  }
}

TEST(MemoryStoreTest, KindsAreKeptApart) {
  MemoryStore store;
  for (int64_t n = 1; n <= 2; n++) {
    ProfileDelta delta = IdleSecond(n);
    delta.threads = {Info(1)};
    delta.stacks = {Stack(9)};
    delta.heap_on = n == 2;
    delta.mappings_on = true;
    for (const Kind kind : {Kind::kAlloc, Kind::kFree, Kind::kMapped}) {
      delta.samples.push_back({.key = {.thread = ThreadId{1}, .stack = StackId{9}, .kind = kind},
                               .weight = n * 70'000,
                               .ticks = 1});
    }
    delta.ledgers.push_back({ThreadId{1}, {}});
    delta.ledgers.back().delta.allocated = {.bytes = 70'000 * n, .events = 1};
    ASSERT_TRUE(store.Append(std::move(delta)).ok());
  }
  const MergedProfile merged = MergeAll(store);
  EXPECT_EQ(merged.heap_ns, kSecond);
  EXPECT_EQ(merged.mappings_ns, 2 * kSecond);
  ASSERT_EQ(merged.threads.size(), 1u);
  EXPECT_EQ(merged.threads[0].ledger.Get().allocated.bytes, 210'000);
  EXPECT_EQ(merged.threads[0].ledger.Get().allocated.events, 2);
  std::map<Kind, int64_t> weights;
  for (const Sample& sample : merged.threads[0].samples) weights[sample.key.kind] += sample.weight;
  EXPECT_EQ(weights[Kind::kAlloc], 210'000);
  EXPECT_EQ(weights[Kind::kFree], 210'000);
  EXPECT_EQ(weights[Kind::kMapped], 210'000);
  EXPECT_EQ(weights[Kind::kWait], 200 * kTick);
}

// Each burst is in a delta of its own: sums of squares tell how they differ.
TEST(MemoryStoreTest, BurstsAreKeptApart) {
  MemoryStore store;
  for (int64_t n = 1; n <= 3; n++) {
    ProfileDelta delta = IdleSecond(n);
    delta.threads = {Info(1)};
    delta.stacks = {Stack(9)};
    delta.bursts_on = n != 2;
    delta.bursts = 1;
    delta.burst_ns = 20;
    delta.burst_span_ns = 5000;
    delta.samples.push_back({.key = {.thread = ThreadId{1},
                                     .stack = StackId{9},
                                     .argument = PROFD_BURST_ARGUMENT,
                                     .kind = Kind::kAlloc},
                             .weight = n * 100,
                             .ticks = 2});
    delta.samples.push_back(
        {.key = {.thread = ThreadId{1}, .stack = StackId{9}, .kind = Kind::kAlloc},
         .weight = 70'000,
         .ticks = 1});
    delta.ledgers.push_back({ThreadId{1}, {}});
    delta.ledgers.back().delta.allocated = {
        .bytes = 70'000, .burst_bytes = n * 100, .burst_doubt = n, .burst_calls = 7};
    delta.ledgers.back().delta.freed = {.burst_bytes = 5};
    ASSERT_TRUE(store.Append(std::move(delta)).ok());
  }
  const MergedProfile merged = MergeAll(store);
  EXPECT_EQ(merged.bursts, 3);
  EXPECT_EQ(merged.burst_ns, 60);
  EXPECT_EQ(merged.burst_span_ns, 15'000);
  EXPECT_EQ(merged.bursts_on_ns, 2 * kSecond);
  ASSERT_EQ(merged.threads.size(), 1u);
  const LedgerDelta ledger = merged.threads[0].ledger.Get();
  EXPECT_EQ(ledger.allocated.bytes, 210'000);
  EXPECT_EQ(ledger.allocated.burst_bytes, 600);
  EXPECT_EQ(ledger.allocated.burst_doubt, 6);
  EXPECT_EQ(ledger.allocated.burst_calls, 21);
  EXPECT_EQ(ledger.freed.burst_bytes, 15);
  int64_t exact = 0;
  for (const Sample& sample : merged.threads[0].samples) {
    if (sample.key.kind != Kind::kAlloc) continue;
    if (!IsFromBursts(sample.key)) {
      exact += sample.weight;
      continue;
    }
    EXPECT_EQ(sample.weight, 600);
    EXPECT_EQ(sample.ticks, 6);
    EXPECT_DOUBLE_EQ(sample.squares, 100 * 100 + 200 * 200 + 300 * 300);
  }
  EXPECT_EQ(exact, 210'000);
}

// A change of a level in second `n`.
ProfileDelta LevelSecond(int64_t n, uint64_t thread, uint64_t stack, int64_t bytes, int64_t count) {
  ProfileDelta delta = Delta(n * kSecond, (n + 1) * kSecond);
  delta.threads = {Info(thread)};
  delta.stacks = {Stack(stack)};
  delta.samples.push_back(
      {.key = {.thread = ThreadId{thread}, .stack = StackId{stack}, .kind = Kind::kInuse},
       .weight = bytes,
       .ticks = count});
  return delta;
}

// The samples of levels at the end of a window, by stack.
std::map<uint64_t, Sample> LevelsOf(const MemoryStore& store, int64_t begin, int64_t end) {
  const auto merged = store.MergeLevels({begin * kSecond, end * kSecond}, nullptr);
  EXPECT_TRUE(merged.ok()) << merged.status();
  std::map<uint64_t, Sample> levels;
  if (!merged.ok()) return levels;
  for (const MergedThread& thread : merged->threads) {
    for (const Sample& sample : thread.samples) {
      if (sample.key.kind != Kind::kInuse) continue;
      EXPECT_TRUE(levels.emplace(static_cast<uint64_t>(sample.key.stack), sample).second);
      EXPECT_NE(std::find_if(merged->stacks.begin(), merged->stacks.end(),
                             [&](const auto& s) { return s->id == sample.key.stack; }),
                merged->stacks.end());
    }
  }
  return levels;
}

TEST(MemoryStoreTest, LevelsAreWhatThereIsAtTheEndOfTheWindow) {
  MemoryStore store;
  ASSERT_TRUE(store.Append(LevelSecond(1, 1, 9, 1'000, 1)).ok());
  ASSERT_TRUE(store.Append(LevelSecond(2, 2, 8, 500, 2)).ok());
  ASSERT_TRUE(store.Append(LevelSecond(3, 1, 9, 300, 1)).ok());
  ASSERT_TRUE(store.Append(LevelSecond(4, 2, 8, -500, -2)).ok());
  ASSERT_TRUE(store.Append(LevelSecond(5, 1, 9, -700, -1)).ok());
  // Up to now: one of 600 is left, and nothing of the other, which came and went.
  std::map<uint64_t, Sample> levels = LevelsOf(store, 0, 10);
  EXPECT_EQ(levels[9].weight, 600);
  EXPECT_EQ(levels[9].ticks, 1);
  EXPECT_EQ(levels[9].growth, 600);
  EXPECT_EQ(levels[8].weight, 0);
  EXPECT_EQ(levels[8].growth, 0);
  // The last seconds only: what was there before counts, and its growth does not.
  levels = LevelsOf(store, 5, 10);
  EXPECT_EQ(levels[9].weight, 600);
  EXPECT_EQ(levels[9].growth, -700);
  EXPECT_FALSE(levels.contains(8));
  // In the past.
  levels = LevelsOf(store, 2, 4);
  EXPECT_EQ(levels[9].weight, 1'300);
  EXPECT_EQ(levels[9].ticks, 2);
  EXPECT_EQ(levels[9].growth, 300);
  EXPECT_EQ(levels[8].weight, 500);
  EXPECT_EQ(levels[8].growth, 500);
  // Before anything was.
  EXPECT_THAT(LevelsOf(store, 0, 1), IsEmpty());
  // A plain merge has no rows for that.
  EXPECT_THAT(MergeAll(store).threads, IsEmpty());
}

// What made it may be hours old: its thread and its stack are still known.
TEST(MemoryStoreTest, LevelsOutliveTheDeltasThatMadeThem) {
  MemoryStore store({.max_age_ns = 20 * kSecond, .grace_ns = 5 * kSecond});
  ASSERT_TRUE(store.Append(LevelSecond(1, 1, 9, 1'000, 1)).ok());
  ASSERT_TRUE(store.Append(LevelSecond(2, 2, 8, 2'000, 1)).ok());
  for (int64_t n = 3; n < 500; ++n) {
    ASSERT_TRUE(store.Append(IdleSecond(n, 3, 7)).ok());
    // Once it is gone nothing keeps the rest.
    if (n == 250) {
      ASSERT_TRUE(store.Append(LevelSecond(++n, 2, 8, -2'000, -1)).ok());
    }
  }
  const std::map<uint64_t, Sample> levels = LevelsOf(store, 490, 500);
  ASSERT_EQ(levels.size(), 1U);
  EXPECT_EQ(levels.at(9).weight, 1'000);
  EXPECT_EQ(levels.at(9).growth, 0);
  const auto merged = store.MergeLevels({490 * kSecond, 500 * kSecond}, nullptr);
  ASSERT_TRUE(merged.ok());
  const auto thread = std::find_if(merged->threads.begin(), merged->threads.end(),
                                   [](const MergedThread& t) { return t.info->id == ThreadId{1}; });
  ASSERT_NE(thread, merged->threads.end());
  EXPECT_EQ(thread->info->process, "server");
}

// With room for next to nothing, levels stay right.
TEST(MemoryStoreTest, LevelsSurviveALackOfMemory) {
  MemoryStore store({.max_bytes = 4'096});
  ASSERT_TRUE(store.Append(LevelSecond(1, 1, 9, 1'000, 1)).ok());
  for (int64_t n = 2; n < 200; ++n) {
    ASSERT_TRUE(store
                    .Append(LevelSecond(n, 100 + static_cast<uint64_t>(n),
                                        1'000 + static_cast<uint64_t>(n), 10, 1))
                    .ok());
  }
  const std::map<uint64_t, Sample> levels = LevelsOf(store, 0, 1'000);
  EXPECT_EQ(levels.size(), 199U);
  EXPECT_EQ(levels.at(9).weight, 1'000);
}

TEST(MemoryStoreTest, TellsWhichModulesItNames) {
  const auto frame = [](uint32_t module) { return PROFD_FRAME(module, 0x1000); };
  MemoryStore store({.max_age_ns = 100 * kSecond});
  EXPECT_THAT(store.NamedModules(), IsEmpty());
  for (int64_t second = 0; second < 130; ++second) {
    ProfileDelta delta = IdleSecond(second, 1, static_cast<uint64_t>(second / 10 + 1));
    const auto module = static_cast<uint32_t>(second / 10 + 1);
    delta.stacks.push_back({.id = StackId{static_cast<uint64_t>(second / 10 + 1)},
                            .kernel_frames = 1,
                            .frames = {0xffffffff81000000, frame(module), 0x7fff00001000}});
    if (second == 0) {
      // Allocated then, and live.
      Sample live = MakeSample(1, 99, 1);
      live.key.kind = Kind::kInuse;
      delta.samples.push_back(live);
      delta.stacks.push_back({.id = StackId{99}, .frames = {frame(77)}});
    }
    ASSERT_TRUE(store.Append(std::move(delta)).ok());
  }
  const absl::flat_hash_set<ModuleId> named = store.NamedModules();
  EXPECT_TRUE(named.contains(ModuleId{12}));
  EXPECT_TRUE(named.contains(ModuleId{77})) << "a level outlives the segment";
  EXPECT_FALSE(named.contains(ModuleId{1})) << "too old";
  EXPECT_FALSE(named.contains(ModuleId{}));
}

// With the segment in which they are named, they come up as it is sealed.
TEST(MemoryStoreTest, WithRareDrainsSegmentsAreLonger) {
  for (const auto& [length, drains] : {std::pair{1, 10}, {2, 6}, {5, 6}, {10, 6}, {30, 2}}) {
    SCOPED_TRACE(length);
    MemoryStore store;
    for (int64_t n = 0; n < drains; ++n) {
      EXPECT_THAT(store.NamedModules(), IsEmpty());
      ProfileDelta delta = IdleSecond(n, 1, 1);
      delta.begin_ns = n * length * kSecond;
      delta.end_ns = (n + 1) * length * kSecond;
      delta.stacks.push_back({.id = StackId{1}, .frames = {PROFD_FRAME(3, 0x1000)}});
      ASSERT_TRUE(store.Append(std::move(delta)).ok());
    }
    EXPECT_TRUE(store.NamedModules().contains(ModuleId{3}));
  }
}

// What a module is stays with the segments that name it, also when nobody else knows it any more.
TEST(MemoryStoreTest, KeepsTheIdentitiesOfModules) {
  MemoryStore store({.boot = {.boot_id = "b", .kernel_build_id = "cafe", .kernel_text = 1}});
  std::set<uint32_t> asked;
  bool forgotten = false;
  store.IdentifyModulesBy([&](ModuleId id) -> std::shared_ptr<const ModuleIdentity> {
    const auto number = static_cast<uint32_t>(id);
    asked.insert(number);
    if (forgotten || number == 9) return nullptr;
    return std::make_shared<const ModuleIdentity>(
        ModuleIdentity{.path = absl::StrCat("/lib/", number), .build_id = "ab"});
  });
  for (int64_t second = 0; second <= 3000; ++second) {
    if (second == 20) forgotten = true;
    ProfileDelta delta = IdleSecond(second, 1, 5);
    if (second == 0) {
      delta.stacks.push_back({.id = StackId{5},
                              .kernel_frames = 1,
                              .frames = {0xffffffff81000000, PROFD_FRAME(7, 0x10),
                                         PROFD_FRAME(9, 0x10), 0x7fff00001000}});
    }
    ASSERT_TRUE(store.Append(std::move(delta)).ok());
    if (second != 30 && second != 3000) continue;
    // Sealed, then rolled up.
    const auto merged = store.Merge({0, 15 * kSecond}, nullptr);
    ASSERT_TRUE(merged.ok());
    ASSERT_EQ(merged->modules.size(), 1U);
    EXPECT_EQ(merged->modules.at(ModuleId{7})->path, "/lib/7");
    EXPECT_EQ(merged->modules.at(ModuleId{7})->build_id, "ab");
  }
  EXPECT_EQ(asked, (std::set<uint32_t>{7, 9}));
}

TEST(MemoryStoreTest, EmptyStore) {
  const MemoryStore store;
  EXPECT_EQ(store.OldestNs(), 0);
  const MergedProfile merged = MergeAll(store);
  EXPECT_THAT(merged.threads, IsEmpty());
  EXPECT_EQ(merged.covered.begin_ns, merged.covered.end_ns);
}

// A window without a tick says how far apart they were.
TEST(MemoryStoreTest, TicksOfLongIntervalsMayBeOutsideAWindow) {
  MemoryStore store;
  for (int64_t n = 1; n <= 3; n++) {
    ProfileDelta delta = IdleSecond(n);
    if (n == 1) delta.threads = {Info(1)};
    delta.ticks = n == 3 ? 10 : 0;
    delta.tick_interval_ns = n == 3 ? kTick : n * 100 * kTick;
    ASSERT_TRUE(store.Append(std::move(delta)).ok());
    EXPECT_EQ(MergeAll(store).tick_interval_ns, n == 3 ? kTick : n * 100 * kTick);
  }
}

TEST(MemoryStoreTest, SumsDeltas) {
  MemoryStore store;
  for (int64_t n = 1; n <= 3; n++) {
    ProfileDelta delta = IdleSecond(n);
    if (n == 1) {
      delta.threads = {Info(1)};
      delta.stacks = {Stack(9)};
    }
    delta.switch_on = n != 2;
    delta.tick_interval_ns = n == 3 ? 2 * kTick : kTick;
    delta.walks = 10;
    delta.torn_walks = 1;
    delta.losses[Index(Loss::kDrainFailed)] = 2;
    delta.lost_weight_ns = 5;
    delta.cost.tick_cpu_ns = 7;
    delta.cost.rules_cpu_ns = 8;
    delta.cost.answers_cpu_ns = 9;
    delta.cost.targets = {{.target = 1, .in_path_ns = 1, .switches = n}};
    if (n == 2) delta.cost.targets.push_back({.target = 2, .drain_cpu_ns = 5});
    delta.ledgers[0].delta.waits[Index(Reason::kPoll)] = n;
    delta.samples.push_back(MakeSample(1, 9, 1, Reason::kLock));
    ASSERT_TRUE(store.Append(std::move(delta)).ok());
  }
  const MergedProfile m = MergeAll(store);
  EXPECT_EQ(m.covered.begin_ns, kSecond);
  EXPECT_EQ(m.covered.end_ns, 4 * kSecond);
  EXPECT_EQ(m.books_ns, 3 * kSecond);
  EXPECT_EQ(m.switch_ns, 2 * kSecond);
  EXPECT_EQ(m.ticks, 300);
  EXPECT_EQ(m.tick_interval_ns, kTick * 4 / 3);
  EXPECT_EQ(m.walks, 30);
  EXPECT_EQ(m.torn_walks, 3);
  EXPECT_EQ(m.losses[Index(Loss::kDrainFailed)], 6u);
  EXPECT_EQ(m.lost_weight_ns, 15);
  EXPECT_EQ(m.cost.tick_cpu_ns, 21);
  EXPECT_EQ(m.cost.rules_cpu_ns, 24);
  EXPECT_EQ(m.cost.answers_cpu_ns, 27);
  EXPECT_THAT(m.cost.targets, ElementsAre(TargetCost{.target = 1, .in_path_ns = 3, .switches = 6},
                                          TargetCost{.target = 2, .drain_cpu_ns = 5}));
  ASSERT_THAT(m.threads, SizeIs(1));
  EXPECT_EQ(m.threads[0].info->name, "worker");
  EXPECT_EQ(m.threads[0].ledger.Get().off_ns[Index(Reason::kPoll)], 3 * kSecond);
  EXPECT_EQ(m.threads[0].ledger.Get().waits[Index(Reason::kPoll)], 6);
  const std::vector<Sample> samples(m.threads[0].samples.begin(), m.threads[0].samples.end());
  ASSERT_THAT(samples, SizeIs(2));
  EXPECT_EQ(samples[0].key, MakeSample(1, 9, 1).key);
  EXPECT_EQ(samples[0].ticks, 300);
  EXPECT_EQ(samples[0].weight, 300 * kTick);
  EXPECT_EQ(samples[1].ticks, 3);
  ASSERT_THAT(m.stacks, SizeIs(1));
  EXPECT_EQ(m.stacks[0]->frames, Stack(9).frames);
}

TEST(MemoryStoreTest, TakesDeltasByTheirMiddle) {
  MemoryStore store;
  for (int64_t n = 1; n <= 9; n++) ASSERT_TRUE(store.Append(IdleSecond(n)).ok());
  const auto covered = [&](double begin, double end) {
    const auto merged = store.Merge(
        {static_cast<int64_t>(begin * kSecond), static_cast<int64_t>(end * kSecond)}, nullptr);
    EXPECT_TRUE(merged.ok());
    return std::pair(static_cast<double>(merged->covered.begin_ns) / kSecond,
                     static_cast<double>(merged->covered.end_ns) / kSecond);
  };
  EXPECT_EQ(covered(2, 5), std::pair(2.0, 5.0));
  EXPECT_EQ(covered(2.4, 5.4), std::pair(2.0, 5.0));
  EXPECT_EQ(covered(2.6, 5.6), std::pair(3.0, 6.0));
  EXPECT_EQ(covered(0, 100), std::pair(1.0, 10.0));
  // Too short for a middle: whatever it overlaps.
  EXPECT_EQ(covered(3.1, 3.2), std::pair(3.0, 4.0));
  EXPECT_EQ(covered(3.9, 4.1), std::pair(3.0, 5.0));
  EXPECT_EQ(covered(20, 30), std::pair(0.0, 0.0));
  EXPECT_FALSE(store.Merge({5, 4}, nullptr).ok());
}

TEST(MemoryStoreTest, KeepsShortDeltas) {
  MemoryStore store;
  ASSERT_TRUE(store.Append(IdleSecond(1)).ok());
  ASSERT_TRUE(store.Append(Delta(2 * kSecond, 2 * kSecond + 300)).ok());
  ASSERT_TRUE(store.Append(Delta(2 * kSecond + 300, 2 * kSecond + 300)).ok());
  ASSERT_TRUE(store.Append(Delta(2 * kSecond + 300, 3 * kSecond)).ok());
  EXPECT_EQ(MergeAll(store).covered.end_ns, 3 * kSecond);
  EXPECT_EQ(MergeAll(store).ticks, 400);
}

TEST(MemoryStoreTest, RefusesDeltasOutOfOrder) {
  MemoryStore store;
  ASSERT_TRUE(store.Append(IdleSecond(5)).ok());
  EXPECT_EQ(store.Append(IdleSecond(4)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store.Append(Delta(9, 8)).code(), absl::StatusCode::kInvalidArgument);
}

TEST(MemoryStoreTest, FiltersThreadsOnceEach) {
  MemoryStore store;
  for (int64_t n = 1; n <= 3; n++) {
    ProfileDelta delta = Delta(n * kSecond, (n + 1) * kSecond);
    for (uint64_t t = 1; t <= 4; t++) {
      if (n == 1) delta.threads.push_back(Info(t, "t" + std::to_string(t)));
      delta.ledgers.push_back({ThreadId{t}, Idle(kSecond)});
    }
    if (n == 2) delta.threads.push_back(Info(2, "renamed"));
    ASSERT_TRUE(store.Append(std::move(delta)).ok());
  }
  std::vector<std::string> asked;
  const auto merged = store.Merge({0, 10 * kSecond}, [&](const ThreadInfo& info) {
    asked.push_back(info.name);
    return info.id == ThreadId{2};
  });
  ASSERT_TRUE(merged.ok());
  EXPECT_THAT(asked, ElementsAre("t1", "renamed", "t3", "t4"));
  ASSERT_THAT(merged->threads, SizeIs(1));
  EXPECT_EQ(merged->threads[0].ledger.Get().wall_ns, 3 * kSecond);
}

TEST(MemoryStoreTest, ManyStacksInOneThread) {
  MemoryStore store;
  for (int64_t n = 1; n <= 2; n++) {
    ProfileDelta delta = Delta(n * kSecond, (n + 1) * kSecond);
    for (uint64_t s = 1; s <= 50; s++) {
      if (n == 1) delta.stacks.push_back(Stack(s));
      delta.samples.push_back(MakeSample(1, s, static_cast<int64_t>(s)));
    }
    ASSERT_TRUE(store.Append(std::move(delta)).ok());
  }
  const MergedProfile merged = MergeAll(store);
  ASSERT_THAT(merged.threads, SizeIs(1));
  ASSERT_THAT(merged.threads[0].samples, SizeIs(50));
  for (const Sample& s : merged.threads[0].samples) {
    EXPECT_EQ(s.ticks, 2 * static_cast<int64_t>(s.key.stack));
  }
  EXPECT_THAT(merged.stacks, SizeIs(50));
}

TEST(MemoryStoreTest, DropsByAgeWithoutALoss) {
  MemoryStore store({.max_age_ns = 100 * kSecond});
  for (int64_t n = 1; n <= 300; n++) ASSERT_TRUE(store.Append(IdleSecond(n)).ok());
  // Whole segments go.
  EXPECT_LE(store.OldestNs(), 200 * kSecond);
  EXPECT_GT(store.OldestNs(), 180 * kSecond);
  EXPECT_EQ(store.Losses()[Index(Loss::kStoreDropped)], 0u);
  const MergedProfile merged = MergeAll(store);
  EXPECT_EQ(merged.covered.begin_ns, store.OldestNs());
  EXPECT_EQ(merged.losses[Index(Loss::kStoreDropped)], 0u);
}

// The second number `n` of threads whose accounts and stacks have nothing in common with those of
// other seconds: rolling them up saves next to nothing.
ProfileDelta NoisySecond(int64_t n, std::mt19937_64* random) {
  ProfileDelta delta = Delta(n * kSecond, (n + 1) * kSecond);
  for (uint64_t t = 1; t <= 100; t++) {
    const ThreadId id{(*random)() >> 2};
    LedgerDelta ledger = Idle(kSecond);
    ledger.minor_faults = static_cast<int64_t>((*random)() >> 2);
    delta.ledgers.push_back({id, ledger});
  }
  return delta;
}

TEST(MemoryStoreTest, DropsByBytesAndSaysSo) {
  const size_t limit = 256 << 10;
  std::mt19937_64 random(4);
  MemoryStore store({.max_bytes = limit});
  for (int64_t n = 1; n <= 500; n++) {
    ASSERT_TRUE(store.Append(NoisySecond(n, &random)).ok());
    ASSERT_LE(store.Bytes(), limit);
  }
  const auto dropped = static_cast<uint64_t>(store.OldestNs() / kSecond - 1);
  EXPECT_GT(dropped, 0u);
  EXPECT_LT(dropped, 490u);
  EXPECT_EQ(store.Losses()[Index(Loss::kStoreDropped)], dropped);
  EXPECT_EQ(MergeAll(store).losses[Index(Loss::kStoreDropped)], dropped);
  // A window that does not reach back has lost nothing.
  const auto recent = store.Merge({490 * kSecond, 501 * kSecond}, nullptr);
  EXPECT_EQ(recent->losses[Index(Loss::kStoreDropped)], 0u);
}

TEST(MemoryStoreTest, DictionariesForgetWhatNobodyNames) {
  MemoryStore store({.max_age_ns = 50 * kSecond, .grace_ns = 20 * kSecond});
  size_t bytes_at_100 = 0;
  for (int64_t n = 1; n <= 1000; n++) {
    // Every second a new thread, a new stack and a new argument.
    const auto id = static_cast<uint64_t>(n);
    ProfileDelta delta = IdleSecond(n, id, id);
    delta.threads = {Info(id)};
    delta.stacks = {Stack(id)};
    delta.samples[0].key.argument = id;
    ASSERT_TRUE(store.Append(std::move(delta)).ok());
    if (n == 100) bytes_at_100 = store.Bytes();
  }
  EXPECT_NEAR(static_cast<double>(store.Bytes()), static_cast<double>(bytes_at_100),
              0.1 * static_cast<double>(bytes_at_100));
  const MergedProfile merged = MergeAll(store);
  EXPECT_THAT(merged.threads, SizeIs(testing::AllOf(testing::Ge(51U), testing::Le(62U))));
  EXPECT_THAT(merged.stacks, SizeIs(merged.threads.size()));
  EXPECT_EQ(merged.losses[Index(Loss::kStackUnknown)], 0u);
  for (const MergedThread& t : merged.threads) {
    EXPECT_EQ(t.info->name, "worker");
    ASSERT_FALSE(t.samples.empty());
    EXPECT_EQ(static_cast<uint64_t>(t.samples.begin()->key.stack),
              static_cast<uint64_t>(t.info->id));
  }
}

TEST(MemoryStoreTest, AStackStaysForAWhileWithoutBeingNamed) {
  MemoryStore store({.max_age_ns = 10 * kSecond, .grace_ns = 100 * kSecond});
  ProfileDelta first = Delta(kSecond, 2 * kSecond);
  first.threads = {Info(1), Info(2)};
  first.stacks = {Stack(9), Stack(10)};
  ASSERT_TRUE(store.Append(std::move(first)).ok());
  for (int64_t n = 2; n < 90; n++) ASSERT_TRUE(store.Append(IdleSecond(n, 2, 10)).ok());
  ASSERT_TRUE(store.Append(IdleSecond(90, 1, 9)).ok());
  MergedProfile merged = MergeAll(store);
  EXPECT_THAT(merged.stacks, SizeIs(2));
  EXPECT_EQ(merged.threads[0].info->name, "worker");
  for (int64_t n = 91; n < 300; n++) ASSERT_TRUE(store.Append(IdleSecond(n, 2, 10)).ok());
  ASSERT_TRUE(store.Append(IdleSecond(300, 1, 9)).ok());
  merged = MergeAll(store);
  EXPECT_THAT(merged.stacks, SizeIs(1)) << "longer than the grace without being named";
  EXPECT_EQ(merged.losses[Index(Loss::kStackUnknown)], 100u);
  EXPECT_EQ(store.Losses()[Index(Loss::kStackUnknown)], 100u);
}

TEST(MemoryStoreTest, AStackMayComeAfterItsSample) {
  MemoryStore store;
  ASSERT_TRUE(store.Append(IdleSecond(1)).ok());
  EXPECT_EQ(MergeAll(store).losses[Index(Loss::kStackUnknown)], 100u);
  ProfileDelta later = Delta(2 * kSecond, 3 * kSecond);
  later.stacks = {Stack(9)};
  ASSERT_TRUE(store.Append(std::move(later)).ok());
  EXPECT_EQ(MergeAll(store).losses[Index(Loss::kStackUnknown)], 0u);
  EXPECT_THAT(MergeAll(store).stacks, SizeIs(1));
}

TEST(MemoryStoreTest, AFloodOfStacksStaysWithinTheLimit) {
  const size_t limit = 1 << 20;
  MemoryStore store({.max_bytes = limit});
  uint64_t id = 0;
  for (int64_t n = 1; n <= 100; n++) {
    ProfileDelta delta = Delta(n * kSecond, (n + 1) * kSecond);
    for (int i = 0; i < 200; i++) {
      delta.stacks.push_back(Stack(++id, 60));
      delta.samples.push_back(MakeSample(1, id, 1));
    }
    ASSERT_TRUE(store.Append(std::move(delta)).ok());
    ASSERT_LE(store.Bytes(), limit);
  }
  // What is left is whole.
  const MergedProfile merged = MergeAll(store);
  EXPECT_GE(merged.covered.end_ns - merged.covered.begin_ns, 3 * kSecond);
  EXPECT_EQ(merged.losses[Index(Loss::kStackUnknown)], 0u);
}

TEST(MemoryStoreTest, ADeltaLargerThanTheLimitIsDropped) {
  MemoryStore store({.max_bytes = 16 << 10});
  ProfileDelta delta = Delta(kSecond, 2 * kSecond);
  std::mt19937_64 random(6);
  for (uint64_t i = 1; i <= 500; i++) {
    delta.stacks.push_back(Stack(i));
    for (uint64_t& frame : delta.stacks.back().frames) frame = random();
  }
  for (uint64_t i = 1; i <= 500; i++) delta.samples.push_back(MakeSample(i, i, 1));
  ASSERT_TRUE(store.Append(std::move(delta)).ok());
  EXPECT_LE(store.Bytes(), 16u << 10);
  EXPECT_EQ(store.Losses()[Index(Loss::kStoreDropped)], 1u);
  EXPECT_EQ(store.OldestNs(), 0);
  ASSERT_TRUE(store.Append(IdleSecond(2)).ok());
  EXPECT_THAT(MergeAll(store).threads, SizeIs(1));
}

TEST(MemoryStoreTest, ReadersAndWriterTogether) {
  MemoryStore store({.max_bytes = 64 << 10, .max_age_ns = 20 * kSecond});
  std::thread writer([&] {
    for (int64_t n = 1; n <= 400; n++) {
      const auto id = static_cast<uint64_t>(n);
      ProfileDelta delta = IdleSecond(n, id, id);
      delta.threads = {Info(id)};
      delta.stacks = {Stack(id)};
      ASSERT_TRUE(store.Append(std::move(delta)).ok());
    }
  });
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; i++) {
    readers.emplace_back([&] {
      for (int k = 0; k < 200; k++) {
        const MergedProfile merged = MergeAll(store);
        EXPECT_EQ(merged.losses[Index(Loss::kStackUnknown)], 0u);
        for (const MergedThread& t : merged.threads) EXPECT_EQ(t.info->name, "worker");
        store.OldestNs();
        store.Bytes();
      }
    });
  }
  writer.join();
  for (std::thread& reader : readers) reader.join();
}

// An hour of many idle threads: the sums hold, and each costs a few bytes a second.
TEST(MemoryStoreTest, AnHourOfIdleThreads) {
  constexpr uint64_t kThreads = 20;
  MemoryStore store({.max_bytes = 256 << 20});
  for (int64_t n = 1; n <= 3600; n++) {
    ProfileDelta delta = Delta(n * kSecond, (n + 1) * kSecond);
    delta.ledgers.reserve(kThreads);
    delta.samples.reserve(kThreads);
    for (uint64_t t = 1; t <= kThreads; t++) {
      if (n == 1) delta.threads.push_back(Info(t));
      delta.ledgers.push_back(
          {ThreadId{t},
           Idle(kSecond +
                static_cast<int64_t>((t * 2654435761u + 977u * static_cast<uint64_t>(n)) % 1000))});
      delta.samples.push_back(MakeSample(t, 9, 100, Reason::kLock, t));
    }
    if (n == 1) delta.stacks = {Stack(9)};
    ASSERT_TRUE(store.Append(std::move(delta)).ok());
  }
  const MergedProfile merged = MergeAll(store);
  EXPECT_EQ(merged.covered.end_ns - merged.covered.begin_ns, 3600 * kSecond);
  ASSERT_THAT(merged.threads, SizeIs(kThreads));
  for (const MergedThread& t : merged.threads) {
    ASSERT_THAT(t.samples, SizeIs(1));
    EXPECT_EQ(t.samples.begin()->ticks, 360'000);
    EXPECT_GE(t.ledger.Get().wall_ns, 3600 * kSecond);
  }
  EXPECT_LT(store.Bytes(), kThreads * 3600 * 8);
}

}  // namespace
}  // namespace profd
