// Which probes are put in and taken out, and when.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "absl/strings/str_cat.h"
#include "daemon/probes/plan.h"
#include "tests/support/fake_hands.h"

namespace profd {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1'000'000'000;
constexpr WatchId kModule{7};

ProbeKey Key(ProbeSet set, int32_t pid, WatchId module = kModule) {
  return {.set = set, .pid = pid, .module = module};
}

class ProbePlanTest : public ::testing::Test {
 protected:
  explicit ProbePlanTest(bool at_once = true) : plan_(at_once) { hands_.at_once = at_once; }

  void Gates() {
    for (const GateChange& change : plan_.TakeGateChanges()) {
      hands_.SetGate(change.where, change.gate);
    }
  }
  bool Step() {
    const std::optional<ProbeStep> step = plan_.Next(now_);
    Gates();
    if (!step) return false;
    EXPECT_FALSE(plan_.Next(now_)) << "one at a time";
    absl::Status status;
    switch (step->action) {
      case ProbeStep::Action::kAttach:
        status = hands_.Attach(step->keys.front(), *step->places);
        break;
      case ProbeStep::Action::kReplace:
        status = hands_.Replace(step->keys.front(), *step->places);
        break;
      case ProbeStep::Action::kLook:
        status = hands_.Look(step->keys.front());
        break;
      case ProbeStep::Action::kDetach:
        hands_.Detach(step->keys);
        break;
      case ProbeStep::Action::kDropGuards:
        hands_.DropGuards(step->guards);
        break;
    }
    Gates();  // of what happened meanwhile
    now_ += step_ns_;
    if (plan_.Done(*step, status, now_)) ++failures_;
    Gates();
    return true;
  }
  void Settle() {
    Gates();
    while (Step()) {
    }
  }
  void Want(const ProbeKey& key, bool looks_first = false) {
    WantedProbes wanted = {.places = places_, .why_none = {}};
    wanted.present = key.set != ProbeSet::kBurst;
    wanted.looks_first = looks_first;
    plan_.Want(key, wanted);
  }
  bool Stands(const ProbeKey& key) const { return hands_.standing().contains(key); }
  ProbeState State(const ProbeKey& key) const {
    const std::optional<ProbeState> state = plan_.StateOf(key);
    EXPECT_TRUE(state);
    return state.value_or(ProbeState());
  }
  // All processes are gone.
  void ExpectNothingStays() {
    plan_.KeepOnly({});
    Settle();
    EXPECT_THAT(hands_.standing(), IsEmpty());
    EXPECT_THAT(hands_.guards(), IsEmpty());
    EXPECT_EQ(hands_.gates(), 0U);
    EXPECT_EQ(plan_.size(), 0U);
    EXPECT_EQ(plan_.next_ns(), INT64_MAX);
  }

  FakeHands hands_;
  ProbePlan plan_;
  ProbePlaces places_ = PlacesAt({1, 2});
  int64_t now_ = 1000 * kSecond;
  int64_t step_ns_ = kMs;
  int failures_ = 0;
};

TEST_F(ProbePlanTest, WhatIsWantedStands) {
  const ProbeKey events = Key(ProbeSet::kEvents, 1), calls = Key(ProbeSet::kMapCalls, 1);
  Want(calls);
  Want(events);
  EXPECT_TRUE(plan_.HasWork(ProbeSet::kEvents));
  Settle();
  EXPECT_THAT(hands_.attached, ElementsAre(events, calls)) << "by priority";
  EXPECT_FALSE(plan_.HasWork());
  EXPECT_TRUE(State(events).stands);
  EXPECT_TRUE(State(events).stood);
  EXPECT_EQ(State(events).since_ns, 1000 * kSecond) << "before the first can be met";
  EXPECT_EQ(hands_.GateOf({1, kModule}), Gate::kOpen);
  Want(events);  // again
  Settle();
  EXPECT_THAT(hands_.attached, SizeIs(2));
  plan_.Unwant(events);
  Settle();
  EXPECT_FALSE(plan_.StateOf(events));
  EXPECT_FALSE(Stands(events));
  EXPECT_TRUE(Stands(calls));
  ExpectNothingStays();
}

TEST_F(ProbePlanTest, WithoutPlacesThereIsAReason) {
  const ProbeKey key = Key(ProbeSet::kEvents, 1);
  plan_.Want(key, {.places = nullptr, .why_none = "no event function"});
  Settle();
  EXPECT_EQ(State(key).failure, "no event function");
  EXPECT_EQ(State(key).next_try_ns, INT64_MAX);
  EXPECT_FALSE(plan_.HasWork());
  EXPECT_EQ(hands_.GateOf({1, kModule}), Gate::kUnknown);
  ExpectNothingStays();
}

TEST_F(ProbePlanTest, WhatFailsIsTriedAgainLaterAndLater) {
  const ProbeKey key = Key(ProbeSet::kEvents, 1);
  hands_.attaches = [](const ProbeKey&) { return absl::ResourceExhaustedError("no memory"); };
  Want(key);
  std::vector<int64_t> waits;
  for (int i = 0; i < 12; ++i) {
    Settle();
    EXPECT_EQ(State(key).failure, "no memory");
    EXPECT_EQ(State(key).since_ns, 0);
    EXPECT_EQ(plan_.next_ns(), State(key).next_try_ns);
    EXPECT_FALSE(plan_.HasWork()) << "nobody waits for it";
    waits.push_back(plan_.next_ns() - now_);
    now_ = plan_.next_ns();
  }
  EXPECT_EQ(failures_, 1) << "the same reason is told once";
  EXPECT_EQ(waits[0], kSecond);
  EXPECT_EQ(waits[1], 2 * kSecond);
  EXPECT_EQ(waits[11], 256 * kSecond);
  hands_.attaches = [](const ProbeKey&) { return absl::OkStatus(); };
  Settle();
  EXPECT_TRUE(State(key).stands);
  EXPECT_EQ(State(key).failure, "");
  ExpectNothingStays();
}

TEST_F(ProbePlanTest, ProcessThatEndsMeanwhileHasNone) {
  const ProbeKey key = Key(ProbeSet::kEvents, 1);
  Want(key);
  bool first = true;
  hands_.meanwhile = [&](const ProbeKey&) {
    if (!std::exchange(first, false)) return;
    plan_.Forget(1);
  };
  Settle();
  EXPECT_THAT(hands_.attached, SizeIs(1));
  ExpectNothingStays();
  // The kernel says so first.
  Want(key);
  hands_.meanwhile = [&](const ProbeKey&) { plan_.Forget(1); };
  hands_.attaches = [](const ProbeKey&) { return absl::NotFoundError("no such process"); };
  Settle();
  EXPECT_FALSE(plan_.StateOf(key));
  ExpectNothingStays();
}

TEST_F(ProbePlanTest, AnotherProgramHasItsOwn) {
  const ProbeKey key = Key(ProbeSet::kEvents, 1);
  Want(key);
  Settle();
  plan_.Forget(1);
  Want(key);
  EXPECT_FALSE(State(key).stood) << "those that stand are of the program before";
  Gates();
  EXPECT_EQ(hands_.GateOf({1, kModule}), Gate::kClosed);
  Settle();
  EXPECT_THAT(hands_.detached, ElementsAre(1U));
  EXPECT_THAT(hands_.attached, SizeIs(2));
  EXPECT_EQ(hands_.GateOf({1, kModule}), Gate::kOpen);
  // The same while they are put in.
  plan_.Forget(1);
  Settle();
  Want(key);
  bool first = true;
  hands_.meanwhile = [&](const ProbeKey&) {
    if (!std::exchange(first, false)) return;
    plan_.Forget(1);
    Want(key);
  };
  Settle();
  EXPECT_THAT(hands_.attached, SizeIs(4));
  EXPECT_THAT(hands_.detached, ElementsAre(1U, 1U, 1U));
  EXPECT_TRUE(State(key).stood);
  ExpectNothingStays();
}

TEST_F(ProbePlanTest, SlicesEndAtOnceAndKeepTheGuard) {
  for (int32_t pid = 1; pid <= 3; ++pid) Want(Key(ProbeSet::kEvents, pid));
  Want(Key(ProbeSet::kLive, 1));
  Settle();
  plan_.SetPresence(ProbeSet::kEvents, Presence::kBetween);
  Gates();
  for (int32_t pid = 1; pid <= 3; ++pid) {
    EXPECT_EQ(hands_.GateOf({pid, kModule}), Gate::kClosed) << "for all alike, before any goes";
  }
  Settle();
  EXPECT_THAT(hands_.standing(), SizeIs(1)) << "what is live is followed without a break";
  EXPECT_THAT(hands_.guards(), SizeIs(1));
  EXPECT_TRUE(State(Key(ProbeSet::kEvents, 1)).stood);
  EXPECT_FALSE(State(Key(ProbeSet::kEvents, 1)).stands);
  const int opened = hands_.opened;
  plan_.SetPresence(ProbeSet::kEvents, Presence::kPresent);
  Settle();
  EXPECT_EQ(hands_.opened, opened + 3);
  EXPECT_THAT(hands_.standing(), SizeIs(4));
  plan_.SetOn(false);
  Settle();
  EXPECT_THAT(hands_.standing(), IsEmpty());
  EXPECT_THAT(hands_.guards(), IsEmpty()) << "a pause leaves nothing";
  plan_.SetOn(true);
  Settle();
  EXPECT_THAT(hands_.standing(), SizeIs(4));
  ExpectNothingStays();
}

class OneByOneProbePlanTest : public ProbePlanTest {
 protected:
  OneByOneProbePlanTest() : ProbePlanTest(/*at_once=*/false) {}
};

TEST_F(OneByOneProbePlanTest, WhatStandsCounts) {
  Want(Key(ProbeSet::kEvents, 1));
  Settle();
  EXPECT_EQ(hands_.GateOf({1, kModule}), Gate::kOpen);
}

TEST_F(ProbePlanTest, SlowPathsCountWhereEventsHaveNone) {
  const ProbeKey events = Key(ProbeSet::kEvents, 1), slow = Key(ProbeSet::kSlowPaths, 1);
  plan_.Want(events, {.places = nullptr, .why_none = "no event function"});
  Want(slow);
  Settle();
  EXPECT_EQ(hands_.GateOf({1, kModule}), Gate::kOpen);
  plan_.SetPresence(ProbeSet::kSlowPaths, Presence::kBetween);
  Settle();
  EXPECT_EQ(hands_.GateOf({1, kModule}), Gate::kClosed);
  ExpectNothingStays();
}

TEST_F(ProbePlanTest, OtherPlacesStandBeforeTheOldOnesGo) {
  const ProbeKey key = Key(ProbeSet::kEvents, 1);
  Want(key);
  Settle();
  places_ = PlacesAt({1});
  hands_.attaches = [](const ProbeKey&) { return absl::ResourceExhaustedError("no memory"); };
  Want(key);
  Settle();
  EXPECT_THAT(hands_.standing().at(key), ElementsAre(1U, 2U)) << "the old ones do";
  EXPECT_TRUE(State(key).stood);
  EXPECT_EQ(hands_.GateOf({1, kModule}), Gate::kOpen);
  hands_.attaches = [](const ProbeKey&) { return absl::OkStatus(); };
  now_ = plan_.next_ns();
  Settle();
  EXPECT_THAT(hands_.standing().at(key), ElementsAre(1U));
  EXPECT_THAT(hands_.detached, IsEmpty());
  EXPECT_EQ(State(key).failure, "");
  // None is right: they go.
  plan_.Want(key, {.places = PlacesAt({}), .why_none = "no event function"});
  Settle();
  EXPECT_FALSE(Stands(key));
  EXPECT_FALSE(State(key).stood);
  EXPECT_EQ(State(key).failure, "no event function");
  ExpectNothingStays();
}

TEST_F(ProbePlanTest, ProcessesAreLookedAtFirst) {
  const ProbeKey key = Key(ProbeSet::kLive, 1);
  hands_.looks = [](const ProbeKey&) { return absl::FailedPreconditionError("no profiling"); };
  Want(key, true);
  Settle();
  EXPECT_THAT(hands_.attached, IsEmpty());
  EXPECT_EQ(State(key).failure, "no profiling");
  hands_.looks = [](const ProbeKey&) { return absl::OkStatus(); };
  Settle();
  EXPECT_THAT(hands_.attached, IsEmpty()) << "not before it is asked for";
  plan_.LookAgain(ProbeSet::kLive);
  Settle();
  EXPECT_TRUE(Stands(key));
  EXPECT_EQ(State(key).failure, "");
  const int64_t since = State(key).since_ns;
  plan_.LookAgain(ProbeSet::kLive);
  Settle();
  EXPECT_THAT(hands_.looked, SizeIs(3));
  EXPECT_EQ(State(key).since_ns, since) << "what is counted goes on";
  // After a pause it may be otherwise.
  plan_.SetOn(false);
  Settle();
  hands_.looks = [](const ProbeKey&) { return absl::FailedPreconditionError("no profiling"); };
  plan_.SetOn(true);
  Settle();
  EXPECT_FALSE(Stands(key));
  ExpectNothingStays();
}

TEST_F(ProbePlanTest, OnlySoManyLibcsAtATime) {
  constexpr int32_t kProcesses = kMostMapCalls + 10;
  for (int32_t pid = 1; pid <= kProcesses; ++pid) Want(Key(ProbeSet::kMapCalls, pid));
  Settle();
  EXPECT_THAT(hands_.standing(), SizeIs(kMostMapCalls));
  EXPECT_FALSE(plan_.HasWork());
  EXPECT_EQ(plan_.Count(ProbeSet::kMapCalls).wanted, static_cast<size_t>(kProcesses));
  EXPECT_EQ(plan_.Count(ProbeSet::kMapCalls).stood, kMostMapCalls);
  plan_.Forget(1);
  Settle();
  EXPECT_TRUE(Stands(Key(ProbeSet::kMapCalls, kMostMapCalls + 1))) << "who waited longest";
  EXPECT_THAT(hands_.standing(), SizeIs(kMostMapCalls));
  plan_.SetPresence(ProbeSet::kMapCalls, Presence::kBetween);
  hands_.detached.clear();
  Settle();
  EXPECT_THAT(hands_.detached, SizeIs(kMostMapCalls / ProbePlan::kRemovedTogether));
  EXPECT_THAT(hands_.detached, Each(ProbePlan::kRemovedTogether));
  ExpectNothingStays();
}

TEST_F(ProbePlanTest, BurstsGoFirstAndAtOnce) {
  const ProbeKey burst = Key(ProbeSet::kBurst, 1), other = Key(ProbeSet::kBurst, 2);
  Want(burst);
  Want(other);
  Want(Key(ProbeSet::kEvents, 1));
  plan_.SetPresent(burst, true, now_);
  Settle();
  EXPECT_THAT(hands_.attached, ElementsAre(burst)) << "nothing else is begun meanwhile";
  EXPECT_EQ(plan_.next_ns(), 1000 * kSecond + ProbePlan::kMostReservedNs);
  plan_.SetPresent(burst, false, now_);
  Settle();
  EXPECT_FALSE(Stands(burst));
  EXPECT_TRUE(Stands(Key(ProbeSet::kEvents, 1)));
  EXPECT_TRUE(hands_.guards().contains({ProbeSet::kBurst, kModule})) << "between bursts";
  // A long one holds nobody up for ever.
  plan_.SetPresent(other, true, now_);
  Want(Key(ProbeSet::kMapCalls, 1));
  Settle();
  EXPECT_FALSE(Stands(Key(ProbeSet::kMapCalls, 1)));
  now_ = plan_.next_ns();
  Settle();
  EXPECT_TRUE(Stands(Key(ProbeSet::kMapCalls, 1)));
  EXPECT_TRUE(Stands(other));
  plan_.SetPresence(ProbeSet::kBurst, Presence::kOff);
  Settle();
  EXPECT_FALSE(hands_.guards().contains({ProbeSet::kBurst, kModule}));
  ExpectNothingStays();
}

// New processes come and go faster than probes can be put in.
TEST_F(ProbePlanTest, StormDoesNotStarveOthers) {
  int32_t pid = 100;
  const auto storm = [&] {
    for (int i = 0; i < 3; ++i) Want(Key(ProbeSet::kEvents, ++pid));
    // Half of them are gone before their turn, the rest soon.
    plan_.Forget(pid - 1);
    plan_.Forget(pid - 60);
  };
  for (int i = 0; i < 200; ++i) {
    storm();
    Step();
  }
  const ProbeKey calls = Key(ProbeSet::kMapCalls, 1), told = Key(ProbeSet::kTold, 2);
  Want(calls);
  Want(told);
  int steps_to_told = 0, steps_to_calls = 0;
  for (int i = 1; i < 4000 && steps_to_calls == 0; ++i) {
    storm();
    Step();
    if (steps_to_told == 0 && Stands(told)) steps_to_told = i;
    if (Stands(calls)) steps_to_calls = i;
  }
  EXPECT_GT(steps_to_told, 0);
  EXPECT_LE(steps_to_told, 3) << "it comes before the others";
  EXPECT_GT(steps_to_calls, 0) << "starved";
  plan_.KeepOnly({1, 2});
  Settle();
  EXPECT_THAT(hands_.standing(), SizeIs(2));
  ExpectNothingStays();
}

// Hours of processes that come, become others, and go, of slices and pauses, with failures.
TEST_F(ProbePlanTest, HoursOfChurnLeaveNothing) {
  std::mt19937 random(7);
  const auto chance = [&](double share) {
    return std::uniform_real_distribution<double>(0, 1)(random) < share;
  };
  std::set<int32_t> alive;
  int32_t next_pid = 1;
  constexpr ProbeSet kSets[] = {ProbeSet::kBurst,     ProbeSet::kTold, ProbeSet::kEvents,
                                ProbeSet::kSlowPaths, ProbeSet::kLive, ProbeSet::kMapCalls};
  const auto program = [&](int32_t pid) {
    for (const ProbeSet set : kSets) {
      const WatchId module{static_cast<uint16_t>(1 + random() % 5)};
      if (chance(0.6)) Want(Key(set, pid, module), set == ProbeSet::kLive);
    }
  };
  const auto change = [&] {
    if (alive.size() < 60 && chance(0.5)) program(*alive.insert(next_pid++).first);
    if (alive.empty()) return;
    const int32_t pid = *std::next(alive.begin(), static_cast<long>(random() % alive.size()));
    if (chance(0.3)) {
      plan_.Forget(pid);  // exec
      program(pid);
    }
    if (chance(0.3)) alive.erase(pid);  // found later, by KeepOnly
    if (chance(0.1)) plan_.KeepOnly(alive);
    if (chance(0.05)) plan_.LookAgain(ProbeSet::kLive);
    if (chance(0.05)) places_ = PlacesAt({random() % 100, 100 + random() % 100});
    if (chance(0.2)) {
      plan_.SetPresence(kSets[1 + random() % 5],
                        chance(0.5) ? Presence::kPresent : Presence::kBetween);
    }
    if (chance(0.3)) plan_.SetPresent(Key(ProbeSet::kBurst, pid), chance(0.5), now_);
    if (chance(0.01)) plan_.SetOn(chance(0.8));
  };
  hands_.attaches = [&](const ProbeKey& key) {
    if (!alive.contains(key.pid)) return absl::NotFoundError("no such process");
    if (chance(0.1)) return absl::ResourceExhaustedError("no memory");
    return absl::OkStatus();
  };
  hands_.looks = [&](const ProbeKey&) {
    return chance(0.5) ? absl::OkStatus() : absl::FailedPreconditionError("no profiling");
  };
  hands_.meanwhile = [&](const ProbeKey&) {
    if (chance(0.3)) change();
  };
  size_t largest = 0;
  step_ns_ = kSecond;
  const int64_t end = now_ + 2 * 3600 * kSecond;
  while (now_ < end) {
    change();
    Gates();
    if (!Step()) now_ += kSecond / 2;
    largest = std::max(largest, plan_.size());
  }
  EXPECT_LT(largest, 60U * 6 * 4) << "grows with what is there, not with time";
  EXPECT_GT(hands_.attached.size(), 1'000U);

  // When it is quiet all that is wanted stands, or has a reason and a next try.
  hands_.meanwhile = [](const ProbeKey&) {};
  plan_.KeepOnly(alive);
  plan_.SetOn(true);
  for (const ProbeSet set : kSets) plan_.SetPresence(set, Presence::kPresent);
  for (int32_t pid : alive) {
    for (uint16_t module = 1; module <= 5; ++module) {
      plan_.SetPresent(Key(ProbeSet::kBurst, pid, WatchId{module}), false, now_);
    }
  }
  Settle();
  size_t wanted = 0;
  for (const ProbeSet set : kSets) {
    plan_.ForEach(set, [&](const ProbeKey& key, const ProbeState& state) {
      ++wanted;
      EXPECT_TRUE(alive.contains(key.pid));
      EXPECT_EQ(state.stands, Stands(key));
      EXPECT_EQ(state.since_ns != 0, state.stands);
      if (set == ProbeSet::kBurst) return;
      EXPECT_TRUE(state.stands || !state.failure.empty()) << static_cast<int>(set);
      EXPECT_TRUE(state.stands || state.next_try_ns > now_);
    });
  }
  EXPECT_GT(wanted, 0U);
  ExpectNothingStays();
}

}  // namespace
}  // namespace profd
