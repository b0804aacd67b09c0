// Probes are put in and taken out beside everybody else.
#include "daemon/probes/reconciler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/synchronization/notification.h"
#include "daemon/probes/map_calls.h"
#include "tests/support/fake_hands.h"

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr WatchId kModule{7};
constexpr int64_t kLongNs = 60'000'000'000;

ProbeKey Key(ProbeSet set, int32_t pid) { return {.set = set, .pid = pid, .module = kModule}; }

int64_t Later() { return MonotonicNs() + kLongNs; }

WantedProbes Probes() { return {.places = PlacesAt({1}), .why_none = {}}; }

TEST(ReconcilerTest, NobodyWaitsForTheKernel) {
  FakeHands hands;
  absl::Notification began, go_on;
  hands.meanwhile = [&](const ProbeKey& key) {
    if (key.pid != 1 || began.HasBeenNotified()) return;  // once
    began.Notify();
    go_on.WaitForNotification();
  };
  Reconciler reconciler(&hands, SystemClock(), true);
  reconciler.Want(Key(ProbeSet::kEvents, 1), Probes());
  began.WaitForNotification();
  // While the first is put in: more are wanted, and that one is not any more.
  reconciler.Want(Key(ProbeSet::kMapCalls, 2), Probes());
  reconciler.Forget(1);
  EXPECT_FALSE(reconciler.StateOf(Key(ProbeSet::kEvents, 1)));
  EXPECT_FALSE(reconciler.Await(ProbeSet::kMapCalls, MonotonicNs()));
  go_on.Notify();
  EXPECT_TRUE(reconciler.Await(ProbeSet::kMapCalls, Later()));
  EXPECT_TRUE(reconciler.StateOf(Key(ProbeSet::kMapCalls, 2))->stands);
  EXPECT_EQ(hands.standing().size(), 1U);
}

TEST(ReconcilerTest, AllIsTakenOutAtTheEnd) {
  FakeHands hands;
  {
    Reconciler reconciler(&hands, SystemClock(), true);
    for (int32_t pid = 1; pid <= 40; ++pid) {
      reconciler.Want(Key(ProbeSet::kEvents, pid), Probes());
      reconciler.Want(Key(ProbeSet::kMapCalls, pid), Probes());
    }
    reconciler.Await(ProbeSet::kEvents, Later());
    EXPECT_GE(hands.attached.size(), 40U);
  }
  EXPECT_THAT(hands.standing(), IsEmpty());
  EXPECT_THAT(hands.guards(), IsEmpty());
}

TEST(ReconcilerTest, WhatFailedIsTriedAgainByItself) {
  FakeHands hands;
  int tries = 0;
  hands.attaches = [&](const ProbeKey&) {
    return ++tries == 1 ? absl::ResourceExhaustedError("no memory") : absl::OkStatus();
  };
  Reconciler reconciler(&hands, SystemClock(), true);
  const ProbeKey key = Key(ProbeSet::kTold, 1);
  reconciler.Want(key, Probes());
  EXPECT_TRUE(reconciler.Await(ProbeSet::kTold, Later()));
  const int64_t deadline = Later();
  while (!reconciler.StateOf(key)->stands && MonotonicNs() < deadline) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_TRUE(reconciler.StateOf(key)->stands);
}

TEST(ReconcilerTest, BreaksAreCounted) {
  FakeHands hands;
  Reconciler reconciler(&hands, SystemClock(), true);
  const uint64_t before = reconciler.breaks(ProbeSet::kBurst);
  reconciler.SetOn(true);
  reconciler.SetPresence(ProbeSet::kEvents, Presence::kBetween);
  EXPECT_EQ(reconciler.breaks(ProbeSet::kBurst), before);
  reconciler.SetOn(false);
  EXPECT_NE(reconciler.breaks(ProbeSet::kBurst), before);
}

TEST(MapCallProbesTest, OnlyProcessesThatStayAreWatched) {
  FakeHands hands;
  Reconciler reconciler(&hands, SystemClock(), true);
  MapCallProbes calls(&reconciler);
  const std::vector<MapCall> found = {{.call = PROFD_MAP_MMAP, .offset = 16},
                                      {.call = PROFD_MAP_BRK, .offset = 32, .stepped = true}};
  const auto keep = [&](const std::set<int32_t>& pids) {
    reconciler.KeepOnly(pids);
    calls.KeepOnly(pids);
  };
  for (int32_t pid = 1; pid <= 3; ++pid) calls.OnMapped({pid, kModule}, found);
  calls.OnMapped({4, WatchId{8}}, {});
  keep({1, 2, 4});
  EXPECT_EQ(calls.State().processes, 0U);
  calls.OnMapped({1, kModule}, found);  // may repeat
  calls.Forget(2);                      // another program, of the same libc
  calls.OnMapped({2, kModule}, found);
  keep({1, 2, 4});
  EXPECT_EQ(calls.State().processes, 1U);
  calls.GrowUp();
  EXPECT_TRUE(reconciler.Await(ProbeSet::kMapCalls, Later()));
  EXPECT_EQ(calls.State().processes, 2U);
  EXPECT_EQ(calls.State().watched, 2U);
  EXPECT_THAT(hands.attached,
              ElementsAre(Key(ProbeSet::kMapCalls, 1), Key(ProbeSet::kMapCalls, 2)));
  EXPECT_THAT(hands.standing().begin()->second, ElementsAre(16U, 32U));
  keep({});
  EXPECT_EQ(calls.State().processes, 0U);
}

}  // namespace
}  // namespace profd
