#include "daemon/source/visits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <set>

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kInterval = 10 * kMs;

// A visit, and what it weighs.
struct Visit {
  uint64_t thread_id = 0;
  uint64_t weight_ns = 0;
  int32_t kernel_tid = 0;
  uint32_t outcome = 0;
};

// One whole tick at a time.
class Ticks : public Visits {
 public:
  using Visits::Visits;
  // The visits of the next tick; the caller writes their outcomes.
  std::span<Visit> Next(int64_t interval) {
    Begin({}, interval, [](const profd_visit&, const TickSum&, Kept&) {});
    const size_t count = Visits::Next(table_);
    due_.clear();
    for (size_t i = 0; i < count; ++i) {
      due_.push_back({.thread_id = table_[i].thread_id,
                      .weight_ns = static_cast<uint64_t>(interval) * StrideAt(i),
                      .kernel_tid = table_[i].kernel_tid,
                      .outcome = table_[i].outcome});
    }
    return due_;
  }
  void Learn() {
    for (size_t i = 0; i < due_.size(); ++i) {
      table_[i].outcome = static_cast<uint8_t>(due_[i].outcome);
    }
    Visits::Learn(table_, [](const profd_visit&, uint32_t, Visits::Kept&) {});
    EXPECT_EQ(Visits::Next(table_), 0U) << "all had room";
    End();
  }

 private:
  std::vector<profd_visit> table_ = std::vector<profd_visit>(PROFD_MAX_VISITS);
  std::vector<Visit> due_;
};

std::vector<uint64_t> Ids(std::span<const Visit> visits) {
  std::vector<uint64_t> ids;
  for (const Visit& visit : visits) ids.push_back(visit.thread_id);
  std::sort(ids.begin(), ids.end());
  return ids;
}

// One tick in which every visit has the same outcome. Returns who was visited.
std::vector<uint64_t> Tick(Ticks& visits, profd_visit_outcome outcome) {
  const std::span<Visit> due = visits.Next(kInterval);
  std::vector<uint64_t> ids = Ids(due);
  for (Visit& visit : due) visit.outcome = outcome;
  visits.Learn();
  return ids;
}

TEST(VisitsTest, WhoDoesNotOnlyWaitIsVisitedAtEveryTick) {
  for (const profd_visit_outcome outcome :
       {PROFD_VISIT_NONE, PROFD_VISIT_RUNNING, PROFD_VISIT_NEW}) {
    Ticks visits(1);
    visits.SetLongestStride(16);
    visits.Add(ThreadId{5}, 50);
    for (int i = 0; i < 100; ++i) {
      const std::span<Visit> due = visits.Next(kInterval);
      ASSERT_EQ(due.size(), 1U);
      EXPECT_EQ(due[0].thread_id, 5U);
      EXPECT_EQ(due[0].kernel_tid, 50);
      EXPECT_EQ(due[0].weight_ns, static_cast<uint64_t>(kInterval));
      EXPECT_EQ(due[0].outcome, static_cast<uint32_t>(PROFD_VISIT_NONE));
      due[0].outcome = outcome;
      visits.Learn();
    }
    EXPECT_EQ(visits.idle_ticks(), 0);
  }
}

TEST(VisitsTest, WithoutStridesWaitersAreVisitedAtEveryTick) {
  Ticks visits(1);
  visits.Add(ThreadId{5}, 50);
  for (int i = 0; i < 100; ++i) EXPECT_THAT(Tick(visits, PROFD_VISIT_SAME), ElementsAre(5));
  EXPECT_EQ(visits.idle_ticks(), 100);
}

// Blocks of 1, 2, 4, 8, 16, 16 ... ticks: one visit in each, anywhere in it, that weighs as much.
TEST(VisitsTest, ExactlyOneVisitInEachBlock) {
  constexpr uint64_t kThreads = 200;
  constexpr uint64_t kBlocks = 100;
  Ticks visits(2);
  visits.SetLongestStride(16);
  for (uint64_t id = 1; id <= kThreads; ++id) visits.Add(ThreadId{id}, static_cast<int32_t>(id));
  struct Block {
    uint64_t begin = 1, stride = 1, visits = 0;
  };
  std::vector<Block> blocks(kThreads + 1);
  std::vector<int> places(16);
  for (uint64_t tick = 1; tick <= 31 + 16 * kBlocks; ++tick) {
    for (Visit& visit : visits.Next(kInterval)) {
      Block& block = blocks[visit.thread_id];
      ASSERT_GE(tick, block.begin);
      ASSERT_LT(tick, block.begin + block.stride);
      ASSERT_EQ(visit.weight_ns, block.stride * static_cast<uint64_t>(kInterval));
      if (block.stride == 16) ++places[tick - block.begin];
      block.begin += block.stride;
      block.stride = std::min<uint64_t>(16, block.stride * 2);
      ++block.visits;
      visit.outcome = PROFD_VISIT_SAME;
    }
    visits.Learn();
  }
  for (uint64_t id = 1; id <= kThreads; ++id) ASSERT_EQ(blocks[id].visits, 5 + kBlocks);
  EXPECT_EQ(visits.idle_ticks(), static_cast<int64_t>(kThreads * (31 + 16 * kBlocks)));
  // Every place in a block is as likely: chi square with 15 degrees, 1 of 1000.
  constexpr double kExpected = static_cast<double>(kThreads * kBlocks) / 16;
  double chi_square = 0;
  for (const int n : places) chi_square += (n - kExpected) * (n - kExpected) / kExpected;
  EXPECT_LT(chi_square, 37.7);
}

TEST(VisitsTest, ABlockThatHasBegunIsFinished) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Ticks visits(seed);
    visits.SetLongestStride(16);
    visits.Add(ThreadId{1}, 1);
    for (int i = 0; i < 31; ++i) Tick(visits, PROFD_VISIT_SAME);
    // It left its wait: the rest of the block is passed over, then every tick has a visit.
    int n = 0;
    for (int i = 0; i < 16; ++i) n += Tick(visits, PROFD_VISIT_NEW).empty() ? 0 : 1;
    EXPECT_EQ(n, 1);
    for (int i = 0; i < 20; ++i) EXPECT_THAT(Tick(visits, PROFD_VISIT_NEW), ElementsAre(1));
  }
}

TEST(VisitsTest, LowerLimitTakesEffectAtTheNextBlock) {
  Ticks visits(3);
  visits.SetLongestStride(16);
  for (uint64_t id = 1; id <= 20; ++id) visits.Add(ThreadId{id}, 1);
  for (int i = 0; i < 31; ++i) Tick(visits, PROFD_VISIT_SAME);
  visits.SetLongestStride(4);
  for (int i = 0; i < 16; ++i) {
    for (Visit& visit : visits.Next(kInterval)) {
      EXPECT_EQ(visit.weight_ns, static_cast<uint64_t>(16 * kInterval));
      visit.outcome = PROFD_VISIT_SAME;
    }
    visits.Learn();
  }
  std::map<uint64_t, int> count;
  for (int i = 0; i < 40; ++i) {
    for (Visit& visit : visits.Next(kInterval)) {
      EXPECT_EQ(visit.weight_ns, static_cast<uint64_t>(4 * kInterval));
      ++count[visit.thread_id];
      visit.outcome = PROFD_VISIT_SAME;
    }
    visits.Learn();
  }
  for (uint64_t id = 1; id <= 20; ++id) EXPECT_EQ(count[id], 10) << id;
  visits.SetLongestStride(1);
  for (int i = 0; i < 4; ++i) Tick(visits, PROFD_VISIT_SAME);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Tick(visits, PROFD_VISIT_SAME).size(), 20U);
}

TEST(VisitsTest, NewThreadIsVisitedByTheNextTick) {
  Ticks visits(4);
  EXPECT_THAT(visits.Next(kInterval), IsEmpty());
  visits.Learn();
  visits.Add(ThreadId{1}, 1);
  EXPECT_THAT(Tick(visits, PROFD_VISIT_NEW), ElementsAre(1));
  // Between a tick and its outcomes.
  std::span<Visit> due = visits.Next(kInterval);
  due[0].outcome = PROFD_VISIT_GONE;
  visits.Add(ThreadId{2}, 2);
  visits.Learn();
  EXPECT_THAT(Tick(visits, PROFD_VISIT_NEW), ElementsAre(2));
}

TEST(VisitsTest, KnownThreadTakesItsNewNumber) {
  Ticks visits(5);
  visits.SetLongestStride(8);
  visits.Add(ThreadId{1}, 10);
  for (int i = 0; i < 15; ++i) Tick(visits, PROFD_VISIT_SAME);
  visits.Add(ThreadId{1}, 11);
  EXPECT_EQ(visits.size(), 1U);
  int n = 0;
  for (int i = 0; i < 8; ++i) {
    for (const Visit& visit : visits.Next(kInterval)) {
      EXPECT_EQ(visit.kernel_tid, 11);
      ++n;
    }
    visits.Learn();
  }
  EXPECT_EQ(n, 1) << "its block went on";
}

// Threads come and go in any number at once, with blocks of any length.
TEST(VisitsTest, GoneThreadsAndOnlyThoseAreForgotten) {
  std::mt19937_64 random(6);
  Ticks visits(6);
  visits.SetLongestStride(16);
  std::map<uint64_t, int32_t> alive;
  std::set<uint64_t> dead;
  std::map<uint64_t, uint64_t> last_seen;
  uint64_t next_id = 1;
  for (uint64_t tick = 1; tick <= 3'000; ++tick) {
    for (uint64_t n = random() % 4; n > 0 && alive.size() < 60; --n) {
      const auto tid = static_cast<int32_t>(random() % 30'000);
      alive[next_id] = tid;
      last_seen[next_id] = tick;
      visits.Add(ThreadId{next_id++}, tid);
    }
    // The drain tells of everybody again.
    if (tick % 50 == 0) {
      for (auto& [id, tid] : alive) visits.Add(ThreadId{id}, ++tid);
    }
    const bool massacre = tick % 100 == 0;
    for (Visit& visit : visits.Next(kInterval)) {
      ASSERT_FALSE(dead.contains(visit.thread_id));
      ASSERT_EQ(alive.at(visit.thread_id), visit.kernel_tid);
      last_seen[visit.thread_id] = tick;
      visit.outcome = random() % 3 ? PROFD_VISIT_SAME : PROFD_VISIT_NEW;
      if (massacre || random() % 20 == 0) {
        visit.outcome = PROFD_VISIT_GONE;
        alive.erase(visit.thread_id);
        dead.insert(visit.thread_id);
      }
    }
    visits.Learn();
    ASSERT_EQ(visits.size(), alive.size());
    for (const auto& [id, tid] : alive) ASSERT_LT(tick - last_seen[id], 32U) << "two blocks";
  }
  EXPECT_GT(dead.size(), 1'000U);
}

// More are due than the table has room for: everybody has one turn, whoever is gone meanwhile.
TEST(VisitsTest, FewAtATimeAreAllTheSame) {
  Visits visits(9);
  for (uint64_t id = 1; id <= 100; ++id) visits.Add(ThreadId{id}, 1);
  std::vector<profd_visit> table(7);
  std::set<uint64_t> alive;
  for (uint64_t id = 1; id <= 100; ++id) alive.insert(id);
  for (uint64_t tick = 0; tick < 10; ++tick) {
    std::multiset<uint64_t> visited, sampled;
    std::set<uint64_t> stay = alive;
    visits.Begin({}, kInterval, [](const profd_visit&, const TickSum&, Visits::Kept&) {});
    while (const size_t count = visits.Next(table)) {
      for (size_t i = 0; i < count; ++i) {
        const uint64_t id = table[i].thread_id;
        visited.insert(id);
        const bool gone = id % 10 == tick;
        if (gone) stay.erase(id);
        table[i].outcome = gone ? PROFD_VISIT_GONE : PROFD_VISIT_NEW;
      }
      visits.Learn(std::span(table).first(count),
                   [&](const profd_visit& visit, uint32_t stride, Visits::Kept&) {
                     EXPECT_EQ(stride, 1U);
                     if (visit.outcome != PROFD_VISIT_GONE) sampled.insert(visit.thread_id);
                   });
    }
    visits.End();
    EXPECT_THAT(visited, ElementsAreArray(alive));
    EXPECT_THAT(sampled, ElementsAreArray(stay));
    alive = stay;
    EXPECT_EQ(visits.size(), alive.size());
  }
  EXPECT_THAT(alive, IsEmpty());
}

// Where wake-ups are noted. Threads sleep, each in the wait of its own number, until they are
// woken.
class QuietTest : public ::testing::Test {
 protected:
  void Add(uint64_t id) {
    visits_.Add(ThreadId{id}, static_cast<int32_t>(id));
    ++waits_[id];
  }
  // The thread sleeps again at once, in another wait. Between the two the kernel may take its time.
  void NoteWakeUp(uint64_t id) {
    if (turn_ != 0 && slots_[id] != 0) marks_[slots_[id]] = 1;
  }
  void LeaveWait(uint64_t id) { ++waits_[id]; }
  void WakeUp(uint64_t id) {
    NoteWakeUp(id);
    LeaveWait(id);
  }
  // Returns who was visited.
  std::vector<uint64_t> Tick() {
    std::vector<uint64_t> visited;
    visits_.Begin({.marks = marks_, .turn = turn_}, interval_, Rested());
    bool first = true;
    while (const size_t count = visits_.Next(table_)) {
      if (std::exchange(first, false)) visits_.CountTick(kInterval);
      for (profd_visit& visit : std::span(table_).first(count)) {
        visited.push_back(visit.thread_id);
        slots_[visit.thread_id] = visit.slot;
        const uint64_t wait = waits_[visit.thread_id];
        const bool same = std::exchange(seen_[visit.thread_id], wait) == wait;
        visit.stack = wait;
        visit.reason = PROFD_REASON_POLL;
        visit.outcome = !same              ? PROFD_VISIT_NEW
                        : visit.known != 0 ? PROFD_VISIT_STILL
                                           : PROFD_VISIT_SAME;
      }
      visits_.Learn(std::span(table_).first(count),
                    [&](const profd_visit& visit, uint32_t stride, Visits::Kept&) {
                      ticks_[{visit.thread_id, visit.stack}] += stride;
                    });
    }
    if (first) visits_.CountTick(kInterval);
    visits_.End();
    std::sort(visited.begin(), visited.end());
    return visited;
  }
  std::vector<uint64_t> Ticks(int n) {
    std::vector<uint64_t> visited;
    for (int i = 0; i < n; ++i) visited = Tick();
    return visited;
  }
  // In parts, as a drain does.
  void Settle() {
    size_t place = 0;
    do {
      place = visits_.Settle(place, 2, Rested());
    } while (place != 0);
  }

  Visits visits_{1};
  uint32_t turn_ = 1;
  int64_t interval_ = kInterval;
  // By thread and wait, how many ticks found it there.
  std::map<std::pair<uint64_t, uint64_t>, int64_t> ticks_;
  std::vector<uint8_t> marks_ = std::vector<uint8_t>(64, 1);

 private:
  std::function<void(const profd_visit&, const TickSum&, Visits::Kept&)> Rested() {
    return [this](const profd_visit& visit, const TickSum& ticks, Visits::Kept&) {
      EXPECT_EQ(visit.outcome, PROFD_VISIT_STILL);
      EXPECT_EQ(visit.reason, PROFD_REASON_POLL);
      EXPECT_EQ(ticks.ns, uint64_t{ticks.ticks} * kInterval);
      ticks_[{visit.thread_id, visit.stack}] += ticks.ticks;
    };
  }

  std::vector<profd_visit> table_ = std::vector<profd_visit>(5);
  std::map<uint64_t, uint64_t> waits_, seen_;
  std::map<uint64_t, uint32_t> slots_;
};

TEST_F(QuietTest, WhoSleepsUnwokenIsVisitedNoMore) {
  for (const uint64_t id : {1, 2, 3}) Add(id);
  EXPECT_THAT(Tick(), ElementsAre(1, 2, 3)) << "in a wait";
  EXPECT_THAT(Tick(), ElementsAre(1, 2, 3)) << "in the same";
  EXPECT_EQ(visits_.quiet(), 3U);
  for (int i = 0; i < 108; ++i) EXPECT_THAT(Tick(), IsEmpty());
  Settle();
  for (const uint64_t id : {1, 2, 3}) {
    const std::pair<uint64_t, uint64_t> wait{id, 1};
    EXPECT_EQ(ticks_[wait], 110);
  }
}

TEST_F(QuietTest, WhoIsWokenIsVisitedByTheNextTick) {
  for (const uint64_t id : {1, 2, 3}) Add(id);
  Ticks(50);
  WakeUp(2);
  EXPECT_THAT(Tick(), ElementsAre(2));
  EXPECT_EQ((ticks_[{2, 1}]), 50) << "told at once";
  EXPECT_THAT(Tick(), ElementsAre(2));
  EXPECT_THAT(Tick(), IsEmpty());
  Settle();
  EXPECT_EQ((ticks_[{2, 2}]), 3);
}

// It may have been woken before it was looked at, and have gone to sleep after.
TEST_F(QuietTest, WhoIsWokenBetweenTwoVisitsIsNotQuiet) {
  Add(1);
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(Tick(), ElementsAre(1));
    WakeUp(1);
  }
  EXPECT_EQ(visits_.quiet(), 0U);
}

// A tick comes between the note and the wake-up: it clears the mark, and finds the thread asleep.
TEST_F(QuietTest, WhoIsWokenWhileItIsVisitedIsVisitedOnceMore) {
  Add(1);
  Ticks(50);
  NoteWakeUp(1);
  EXPECT_THAT(Tick(), ElementsAre(1)) << "in its old wait";
  EXPECT_EQ(visits_.quiet(), 0U);
  LeaveWait(1);
  EXPECT_THAT(Tick(), ElementsAre(1));
  EXPECT_EQ((ticks_[{1, 1}]), 51);
  EXPECT_EQ((ticks_[{1, 2}]), 1);
}

// Under pressure, too, and also if a long block has begun before wake-ups were noted.
TEST_F(QuietTest, LongStridesDoNotKeepFromIt) {
  for (uint64_t id = 1; id <= 20; ++id) Add(id);
  visits_.SetLongestStride(16);
  turn_ = 0;
  Ticks(100);
  turn_ = 2;
  Ticks(3 * 16);
  EXPECT_EQ(visits_.quiet(), 20U);
  Ticks(12);
  Settle();
  for (uint64_t id = 1; id <= 20; ++id) EXPECT_EQ((ticks_[{id, 1}]), 160) << id;
}

TEST_F(QuietTest, NobodyIsWhileWakeUpsAreNotNoted) {
  for (const uint64_t id : {1, 2}) Add(id);
  Ticks(20);
  turn_ = 0;
  for (int i = 0; i < 10; ++i) EXPECT_THAT(Tick(), ElementsAre(1, 2));
  EXPECT_EQ((ticks_[{1, 1}]), 30);
  // What was noted before says nothing about the time between.
  turn_ = 2;
  for (int i = 0; i < 2; ++i) EXPECT_THAT(Tick(), ElementsAre(1, 2));
  EXPECT_THAT(Tick(), IsEmpty());
}

// Off and on again between two ticks.
TEST_F(QuietTest, AnotherTurnIsLikeTheFirst) {
  Add(1);
  Ticks(20);
  turn_ = 2;
  for (int i = 0; i < 2; ++i) EXPECT_THAT(Tick(), ElementsAre(1));
  EXPECT_THAT(Tick(), IsEmpty());
}

TEST_F(QuietTest, EverybodyIsLookedAtNowAndThen) {
  for (uint64_t id = 1; id <= 20; ++id) Add(id);
  Ticks(2);
  std::map<uint64_t, int> looked_at;
  for (int i = 0; i < 1'280; ++i) {
    for (const uint64_t id : Tick()) ++looked_at[id];
  }
  for (uint64_t id = 1; id <= 20; ++id) EXPECT_EQ(looked_at[id], 10) << id;
  EXPECT_EQ(visits_.quiet(), 20U);
  // With a longer interval as often.
  interval_ = 500 * kMs;
  looked_at.clear();
  for (int i = 0; i < 40; ++i) {
    for (const uint64_t id : Tick()) ++looked_at[id];
  }
  for (uint64_t id = 1; id <= 20; ++id) EXPECT_EQ(looked_at[id], 10) << id;
}

TEST_F(QuietTest, VeryManyAreLookedAtLessOften) {
  constexpr uint64_t kThreads = 6'000;
  marks_.assign(8'192, 1);
  for (uint64_t id = 1; id <= kThreads; ++id) Add(id);
  Ticks(2);
  ASSERT_EQ(visits_.quiet(), kThreads);
  const auto look = [this](int ticks) {
    std::map<uint64_t, int> looked_at;
    for (int i = 0; i < ticks; ++i) {
      for (const uint64_t id : Tick()) ++looked_at[id];
    }
    std::set<int> times;
    for (uint64_t id = 1; id <= kThreads; ++id) times.insert(looked_at[id]);
    return times;
  };
  // Once in 4 s, and 1,500 a second, where 20 would be looked at every 2 s.
  interval_ = 500 * kMs;
  EXPECT_THAT(look(40), ElementsAre(5));
  // Once in 512 ticks, where 20 would be in 128.
  interval_ = 10 * kMs;
  EXPECT_THAT(look(1'024), ElementsAre(2));
}

// There is a mark for each of 63 threads.
TEST_F(QuietTest, WhoHasNoMarkIsVisitedAlways) {
  for (uint64_t id = 1; id <= 100; ++id) Add(id);
  EXPECT_EQ(Ticks(3).size(), 100U - 63);
  EXPECT_EQ(visits_.quiet(), 63U);
}

TEST_F(QuietTest, EveryTickCountsOnceInTheWaitThatItFound) {
  std::mt19937_64 random(3);
  constexpr int kTicks = 4'000;
  constexpr uint64_t kThreads = 30;
  std::map<std::pair<uint64_t, uint64_t>, int64_t> truth;
  std::map<uint64_t, uint64_t> waits;
  for (uint64_t id = 1; id <= kThreads; ++id) {
    Add(id);
    waits[id] = 1;
  }
  size_t visited = 0;
  for (int tick = 0; tick < kTicks; ++tick) {
    for (uint64_t id = 1; id <= kThreads; ++id) {
      // From always to hardly ever.
      if (random() % (1 + id * id) != 0) continue;
      WakeUp(id);
      ++waits[id];
    }
    if (random() % 500 == 0) turn_ = turn_ == 0 ? static_cast<uint32_t>(tick) + 2 : 0;
    if (random() % 50 == 0) Settle();
    visited += Tick().size();
    for (uint64_t id = 1; id <= kThreads; ++id) ++truth[{id, waits[id]}];
  }
  Settle();
  EXPECT_EQ(ticks_, truth);
  EXPECT_LT(visited, kTicks * kThreads * 3 / 4) << "wake-ups are not noted half of the time";
}

TEST(VisitsTest, AllGoneAtOnce) {
  Ticks visits(7);
  for (uint64_t id = 1; id <= 9; ++id) visits.Add(ThreadId{id}, 1);
  EXPECT_EQ(Tick(visits, PROFD_VISIT_GONE).size(), 9U);
  EXPECT_EQ(visits.size(), 0U);
  EXPECT_THAT(Tick(visits, PROFD_VISIT_SAME), IsEmpty());
  visits.Add(ThreadId{3}, 4);
  EXPECT_THAT(Tick(visits, PROFD_VISIT_SAME), ElementsAre(3));
}

// What a thread does at a time, as a wait of its own: the number of the wait and its state.
// State 0 is on the CPU.
struct Doing {
  int64_t wait;
  int state;
};
using Story = std::function<Doing(int64_t time_ns)>;
constexpr int kStates = 3;

// The sum of weights is the time in each state on average, whatever is done to strides and
// intervals in between: within 4 standard errors over many repetitions.
TEST(VisitsTest, WeightsAreUnbiased) {
  const struct {
    const char* name;
    Story story;
  } threads[] = {
      {"idle for long", [](int64_t t) { return t < 2'945 * kMs ? Doing{0, 1} : Doing{1, 2}; }},
      {"waits of 3 ticks",
       [](int64_t t) {
         const int64_t wait = t / (3 * kInterval);
         return Doing{wait, wait % 2 == 0 ? 1 : 2};
       }},
      {"busy",
       [](int64_t t) {
         const int64_t wait = t / (2 * kMs);
         return Doing{wait, static_cast<int>(wait % 5) == 0 ? 1 : 0};
       }},
      {"busy for a while now and then",
       [](int64_t t) {
         const int64_t second = t / (700 * kMs);
         if (t % (700 * kMs) < 610 * kMs) return Doing{-second - 1, 1};
         return Doing{t / kMs, t / kMs % 2 == 0 ? 0 : 2};
       }},
      {"long waits of two kinds",
       [](int64_t t) {
         const int64_t wait = t / (130 * kMs);
         return Doing{wait, 1 + static_cast<int>(wait % 2)};
       }},
  };
  // Interval and limit of the strides for so many ticks each.
  const struct {
    int ticks;
    int64_t interval;
    uint32_t stride;
  } phases[] = {{150, kInterval, 16},
                {37, 3 * kInterval, 16},
                {50, 3 * kInterval, 4},
                {41, kInterval, 16},
                {60, kInterval / 2, 2}};
  int64_t duration = 0;
  for (const auto& phase : phases) duration += phase.ticks * phase.interval;

  constexpr int kRepetitions = 2'000;
  constexpr size_t kThreads = std::size(threads);
  double sum[kThreads][kStates] = {};
  double squares[kThreads][kStates] = {};
  std::mt19937_64 random(8);
  int64_t made = 0, ticks = 0;
  for (int n = 0; n < kRepetitions; ++n) {
    Ticks visits(random());
    double weights[kThreads][kStates] = {};
    int64_t last_wait[kThreads];
    std::fill(std::begin(last_wait), std::end(last_wait), -1'000);
    for (size_t i = 0; i < kThreads; ++i) visits.Add(ThreadId{i + 1}, 1);
    int64_t stratum = 0;
    for (const auto& phase : phases) {
      visits.SetLongestStride(phase.stride);
      for (int tick = 0; tick < phase.ticks; ++tick) {
        const int64_t instant =
            stratum + static_cast<int64_t>(random() % static_cast<uint64_t>(phase.interval));
        stratum += phase.interval;
        ++ticks;
        for (Visit& visit : visits.Next(phase.interval)) {
          ++made;
          const size_t i = visit.thread_id - 1;
          const Doing doing = threads[i].story(instant);
          weights[i][doing.state] += static_cast<double>(visit.weight_ns);
          visit.outcome = doing.state == 0             ? PROFD_VISIT_RUNNING
                          : doing.wait == last_wait[i] ? PROFD_VISIT_SAME
                                                       : PROFD_VISIT_NEW;
          if (doing.state != 0) last_wait[i] = doing.wait;
        }
        visits.Learn();
      }
    }
    for (size_t i = 0; i < kThreads; ++i) {
      for (int s = 0; s < kStates; ++s) {
        sum[i][s] += weights[i][s];
        squares[i][s] += weights[i][s] * weights[i][s];
      }
    }
  }
  EXPECT_LT(made, ticks * static_cast<int64_t>(kThreads) * 3 / 4) << "strides were in use";

  for (size_t i = 0; i < kThreads; ++i) {
    // Stories change at whole milliseconds only.
    double truth[kStates] = {};
    for (int64_t t = 0; t < duration; t += kMs) {
      truth[threads[i].story(t).state] += static_cast<double>(kMs);
    }
    for (int s = 0; s < kStates; ++s) {
      const double mean = sum[i][s] / kRepetitions;
      const double variance = std::max(0.0, squares[i][s] / kRepetitions - mean * mean);
      EXPECT_NEAR(mean, truth[s], 4 * std::sqrt(variance / kRepetitions) + 1)
          << threads[i].name << ", state " << s;
    }
  }
}

}  // namespace
}  // namespace profd
