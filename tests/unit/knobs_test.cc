#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "daemon/collect/drain_knob.h"
#include "daemon/govern/governor.h"
#include "daemon/source/fault_knob.h"
#include "daemon/source/jemalloc_knob.h"
#include "daemon/source/mapping_knob.h"
#include "daemon/source/probe_cost.h"
#include "daemon/source/switch_knob.h"
#include "daemon/source/wait_knob.h"

namespace profd {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1'000'000'000;

TEST(JemallocKnobTest, CostIsEventsTimesTheirPrice) {
  JemallocKnob source;
  EXPECT_EQ(source.payer(), Payer::kTarget);
  EXPECT_EQ(source.CostAt(0), 0) << "no event yet";
  // 1,000 events a second of 1 us and the way in, with a walk of 4 us more.
  const profd_probe_cost cost = {.events = 2'000,
                                 .stepped = 0,
                                 .walks = 1'000,
                                 .ns = 1'000'000,
                                 .walk_ns = 5'000'000,
                                 .closed = 0};
  source.Learn({.seconds = 2,
                .events = 2'000,
                .seen_bytes = 140'000'000,
                .bytes = 140'000'000,
                .cost = cost,
                .traps = {.emulated = 2'000}});
  EXPECT_DOUBLE_EQ(source.CostAt(0), 1'000 * (3e-6 + 4e-6));
  // There are no slow paths to give up.
  EXPECT_DOUBLE_EQ(source.CostAt(1), source.CostAt(0));
  // Slices of the time, all stacks in them.
  EXPECT_EQ(source.ShareAt(1), 1);
  EXPECT_DOUBLE_EQ(source.ShareAt(2), 0.25);
  EXPECT_DOUBLE_EQ(source.CostAt(2), 1'000 * (3e-6 + 4e-6) / 4);
  EXPECT_LT(source.ShareAt(source.levels() - 1), 0.01);
  EXPECT_GT(source.ShareAt(source.levels() - 1), 0);
  EXPECT_TRUE(source.ToldAt(source.levels() - 2));
  EXPECT_FALSE(source.ToldAt(source.levels() - 1));
  for (int level = 2; level < source.levels(); level++) {
    EXPECT_LT(source.CostAt(level), source.CostAt(level - 1));
    EXPECT_NE(source.GivenUpAt(level), "");
  }
  EXPECT_EQ(source.GivenUpAt(1),
            "probes in allocators' slow paths, which catch events that other probes miss");
  EXPECT_THAT(source.GivenUpAt(0), IsEmpty());
  EXPECT_EQ(ProbeInPathNs(cost, {.emulated = 2'000}), 1e6 + 5e6 + 2'000 * 2'000);
}

TEST(JemallocKnobTest, SteppedProbesCostMore) {
  JemallocKnob source;
  const profd_probe_cost cost = {
      .events = 1'000, .stepped = 250, .walks = 0, .ns = 1'000'000, .walk_ns = 0, .closed = 0};
  const Traps traps = {.emulated = 1'000, .stepped = 9'000};
  source.Learn({.seconds = 1,
                .events = 1'000,
                .seen_bytes = 70'000'000,
                .bytes = 70'000'000,
                .cost = cost,
                .traps = traps});
  EXPECT_DOUBLE_EQ(source.CostAt(0), 1'000 * (1e-6 + 3e-6));
  EXPECT_EQ(ProbeInPathNs(cost, traps), 1e6 + 3e6);
  MappingKnob maps;
  maps.Learn({.seconds = 1, .cost = cost, .traps = traps});
  EXPECT_DOUBLE_EQ(maps.CostAt(0), 1'000 * (1e-6 + 3e-6));
}

TEST(JemallocKnobTest, SlowPathsCostWhatTheirCallsDo) {
  JemallocKnob source;
  // 1,000 events a second with their stacks, 9,000 calls that told nothing; 500 runs in which
  // nothing counted.
  const profd_probe_cost cost = {.events = 10'500,
                                 .stepped = 0,
                                 .walks = 1'000,
                                 .ns = 9'000'000,
                                 .walk_ns = 5'000'000,
                                 .closed = 500};
  source.Learn({.seconds = 1,
                .events = 1'000,
                .seen_bytes = 70'000'000,
                .bytes = 70'000'000,
                .cost = cost,
                .traps = {.emulated = 1'000}});
  EXPECT_TRUE(source.SlowPathsAt(0));
  EXPECT_FALSE(source.SlowPathsAt(1));
  EXPECT_NEAR(source.CostAt(0) - source.CostAt(1), 9'000 * 2e-6, 1e-9);
}

// Stacks of a few hundred events a second are enough, and cost a part of the budget.
TEST(JemallocKnobTest, StacksAreThinnedOut) {
  JemallocKnob source;
  EXPECT_EQ(source.one_in(), 1U);
  Allowance allowance = {.rate = 0.01};
  profd_probe_cost cost{};
  const auto second = [&](int64_t events) {
    const uint64_t walks = static_cast<uint64_t>(events) / source.one_in();
    cost.events += static_cast<uint64_t>(events);
    cost.walks += walks;
    cost.ns += (static_cast<uint64_t>(events) - walks) * 500;
    cost.walk_ns += walks * 4'500;
    source.Learn({.seconds = 1,
                  .events = events,
                  .seen_bytes = events * 70'000,
                  .bytes = events * 70'000,
                  .cost = cost,
                  .traps = {.emulated = 500},
                  .allowance = allowance});
  };
  second(100);
  EXPECT_EQ(source.one_in(), 1U) << "0.05% of a CPU for stacks is little";
  for (int i = 0; i < 10; i++) second(2'000);
  EXPECT_EQ(source.one_in(), 8U) << "0.8% in all";
  EXPECT_LT(source.CostAt(0), 0.004);
  for (int i = 0; i < 30; i++) second(1'300);
  EXPECT_EQ(source.one_in(), 8U) << "0.13% of 4 is not well within it";
  for (int i = 0; i < 9; i++) second(100);
  EXPECT_EQ(source.one_in(), 8U);
  for (int i = 0; i < 100; i++) second(100);
  EXPECT_EQ(source.one_in(), 1U);
  allowance.saved = 0.1;
  second(2'000);
  EXPECT_EQ(source.one_in(), 1U) << "a burst is paid from what was saved";
  allowance.saved = 0;
  second(2'000);
  EXPECT_EQ(source.one_in(), 8U);
}

TEST(JemallocKnobTest, WithoutProbesTheCountersTellTheRate) {
  JemallocKnob source;
  const profd_probe_cost cost = {
      .events = 100, .stepped = 0, .walks = 100, .ns = 0, .walk_ns = 500'000, .closed = 0};
  source.Learn({.seconds = 1,
                .events = 100,
                .seen_bytes = 7'000'000,
                .bytes = 7'000'000,
                .cost = cost,
                .traps = {.emulated = 1'000}});
  const double each = source.CostAt(0) / 100;
  source.Learn(
      {.seconds = 1, .events = 0, .bytes = 70'000'000, .cost = cost, .traps = {.emulated = 1'000}});
  EXPECT_NEAR(source.CostAt(0), 1'000 * each, 1e-9);
  // In slices some are seen: what a tenth of the bytes tells of the price is true of all.
  source.Learn({.seconds = 1,
                .events = 100,
                .seen_bytes = 7'000'000,
                .bytes = 70'000'000,
                .cost = cost,
                .traps = {.emulated = 1'000}});
  EXPECT_NEAR(source.CostAt(0), 1'000 * each, 1e-9);
  source.Learn(
      {.seconds = 1, .events = 0, .bytes = -5, .cost = cost, .traps = {.emulated = 1'000}});
  EXPECT_EQ(source.CostAt(0), 0);
}

TEST(MappingKnobTest, CostIsCallsTimesTheirPrice) {
  MappingKnob source;
  EXPECT_EQ(source.payer(), Payer::kTarget);
  EXPECT_EQ(source.CostAt(0), 0) << "no call yet";
  // 1,000 calls a second; half of them change something and take a walk of 4 us more.
  const profd_probe_cost cost = {.events = 2'000,
                                 .stepped = 0,
                                 .walks = 1'000,
                                 .ns = 1'000'000,
                                 .walk_ns = 5'000'000,
                                 .closed = 0};
  source.Learn({.seconds = 2, .cost = cost, .traps = {.emulated = 2'000}});
  EXPECT_DOUBLE_EQ(source.CostAt(0), 1'000 * (3e-6 + 0.5 * 4e-6));
  EXPECT_DOUBLE_EQ(source.CostAt(1), 1'000 * (3e-6 + 0.5 * 4e-6 / 4));
  EXPECT_DOUBLE_EQ(source.CostAt(3), 1'000 * (3e-6 + 0.5 * 4e-6 / 64));
  EXPECT_EQ(source.OneInAt(0), 1U);
  EXPECT_EQ(source.OneInAt(3), 64U);
  EXPECT_EQ(source.OneInAt(source.levels() - 1), 0U);
  EXPECT_EQ(source.CostAt(source.levels() - 1), 0);
  for (int level = 1; level < source.levels(); level++) {
    EXPECT_LT(source.CostAt(level), source.CostAt(level - 1));
    EXPECT_THAT(source.GivenUpAt(level), Not(IsEmpty()));
  }
  EXPECT_THAT(source.GivenUpAt(0), IsEmpty());
}

// Without probes nobody counts: what was there is supposed to ebb, so that they are tried again.
TEST(MappingKnobTest, WithoutProbesTheRateEbbs) {
  MappingKnob source;
  const profd_probe_cost cost = {
      .events = 1'000, .stepped = 0, .walks = 1'000, .ns = 0, .walk_ns = 5'000'000, .closed = 0};
  source.Learn({.seconds = 1, .cost = cost, .traps = {.emulated = 1'000}});
  const double before = source.CostAt(0);
  EXPECT_GT(before, 0);
  for (int i = 0; i < 60; i++) {
    source.Learn({.seconds = 1, .on = false, .cost = cost, .traps = {.emulated = 1'000}});
  }
  EXPECT_NEAR(source.CostAt(0), before / 2, before * 1e-6);
  source.Learn({.seconds = 1, .cost = cost, .traps = {.emulated = 1'000}});
  EXPECT_EQ(source.CostAt(0), 0) << "probes stand, and there is no call";
}

// None of these can be left out: they cost what they cost, or nothing.
TEST(JemallocKnobTest, ObjectsThatAreToldOfAreAllOrNothing) {
  JemallocKnob source;
  const profd_probe_cost cost = {
      .events = 1'000, .stepped = 0, .walks = 1'000, .ns = 0, .walk_ns = 5'000'000, .closed = 0};
  source.Learn({.seconds = 2, .cost = cost, .traps = {.emulated = 1'000}, .told = 1'000});
  const int last = source.levels() - 1;
  for (int level = 0; level < last; level++) {
    EXPECT_DOUBLE_EQ(source.CostAt(level), 500 * 6e-6);
  }
  EXPECT_EQ(source.CostAt(last), 0);
}

TEST(FaultKnobTest, CostIsFaultsTimesTheirPrice) {
  FaultKnob source;
  EXPECT_EQ(source.payer(), Payer::kTarget);
  EXPECT_EQ(source.CostAt(0), 0) << "no fault yet";
  // 10,000 faults a second of 100 ns and the way in; 17 us for each that is sampled.
  const profd_fault_cost cost = {.faults = 20'000,
                                 .timed = 300,
                                 .timed_ns = 30'000,
                                 .walks = 1'000,
                                 .walk_ns = 17'000'000,
                                 .unsure = 0};
  source.Learn({.seconds = 2, .faults = 20'000, .cost = cost, .trap_ns = 300});
  EXPECT_DOUBLE_EQ(source.CostAt(0), 10'000 * (400e-9 + 17e-6 / 17));
  EXPECT_EQ(source.OneInAt(source.levels() - 1), 0U);
  EXPECT_EQ(source.CostAt(source.levels() - 1), 0);
  for (int level = 1; level < source.levels(); level++) {
    EXPECT_LT(source.CostAt(level), source.CostAt(level - 1));
    EXPECT_THAT(source.GivenUpAt(level), Not(IsEmpty()));
  }
  EXPECT_THAT(source.GivenUpAt(0), IsEmpty());
  // Faults that were not sampled cost what the timed ones did.
  EXPECT_DOUBLE_EQ(FaultKnob::InPathNs(cost, 300), 20'000 * 300.0 + 19'000 * 100.0 + 17e6);
  // Without its program the kernel's books tell the rate.
  source.Learn({.seconds = 1, .faults = 40'000, .cost = cost, .trap_ns = 300});
  EXPECT_DOUBLE_EQ(source.CostAt(0), 40'000 * (400e-9 + 17e-6 / 17));
}

TEST(SwitchKnobTest, CostIsSwitchesTimesTheirPrice) {
  SwitchKnob source(true);
  EXPECT_EQ(source.CostAt(0), 0) << "nothing was timed yet";
  source.Learn(1, 10'000, {.timed = 0, .timed_ns = 0});
  EXPECT_EQ(source.CostAt(0), 0);
  source.Learn(2, 20'000, {.timed = 100, .timed_ns = 50'000});
  EXPECT_DOUBLE_EQ(source.ns_per_switch(), 500);
  EXPECT_DOUBLE_EQ(source.CostAt(0), 0.005);
  EXPECT_EQ(source.CostAt(1), 0);
  EXPECT_EQ(source.levels(), 2);
  EXPECT_EQ(source.payer(), Payer::kTarget);
}

TEST(SwitchKnobTest, ShedItIsKnownFromTheSwitchesAndTheLastPrice) {
  SwitchKnob source(true);
  source.Learn(1, 10'000, {.timed = 100, .timed_ns = 50'000});
  for (const int64_t switches : {40'000, 0, 2'000, 1'000'000}) {
    source.Learn(1, switches, {.timed = 100, .timed_ns = 50'000});
    EXPECT_DOUBLE_EQ(source.ns_per_switch(), 500);
    EXPECT_DOUBLE_EQ(source.CostAt(0), static_cast<double>(switches) * 500e-9);
  }
  source.Learn(1, -5, {.timed = 100, .timed_ns = 50'000});
  EXPECT_EQ(source.CostAt(0), 0);
}

TEST(SwitchKnobTest, WayIntoTheProgramIsPartOfThePrice) {
  SwitchKnob source(true);
  source.SetEntry(100);
  source.Learn(2, 20'000, {.timed = 100, .timed_ns = 50'000});
  EXPECT_DOUBLE_EQ(source.ns_per_switch(), 600);
  EXPECT_DOUBLE_EQ(source.CostAt(0), 0.006);
  EXPECT_DOUBLE_EQ(source.InPathNs({.timed = 100, .timed_ns = 50'000}), 64 * 60'000);
}

TEST(SwitchKnobTest, PriceFollowsSlowly) {
  SwitchKnob source(true);
  profd_switch_cost cost = {.timed = 10, .timed_ns = 4'000};
  source.Learn(1, 1'000, cost);
  // Only what was timed since counts.
  cost.timed += 10;
  cost.timed_ns += 8'000;
  source.Learn(1, 1'000, cost);
  EXPECT_GT(source.ns_per_switch(), 400);
  EXPECT_LT(source.ns_per_switch(), 800);
  for (int i = 0; i < 30; ++i) {
    cost.timed += 10;
    cost.timed_ns += 8'000;
    source.Learn(1, 1'000, cost);
  }
  EXPECT_NEAR(source.ns_per_switch(), 800, 0.1);
}

TEST(SwitchKnobTest, NoTimeTeachesNothing) {
  SwitchKnob source(true);
  source.Learn(0, 1'000'000, {.timed = 10, .timed_ns = 4'000});
  EXPECT_EQ(source.ns_per_switch(), 0);
  EXPECT_EQ(source.CostAt(0), 0);
}

TEST(SwitchKnobTest, SaysWhatIsLost) {
  const SwitchKnob source(true);
  EXPECT_THAT(source.GivenUpAt(0), IsEmpty());
  EXPECT_THAT(source.GivenUpAt(1), Not(IsEmpty()));
  EXPECT_EQ(SwitchKnob(false).levels(), 1);
}

// 100x the switches from one second to the next: one step of the governor is enough.
TEST(SwitchKnobTest, GovernorShedsItAtOnceAndRestoresIt) {
  SwitchKnob source(true);
  Governor governor;
  governor.AddKnob(&source);
  profd_switch_cost cost = {.timed = 100, .timed_ns = 40'000};
  source.Learn(1, 10'000, cost);
  EXPECT_THAT(governor.Step({.rate = 0.01}), IsEmpty());
  cost.timed += 10'000;
  cost.timed_ns += 4'000'000;
  source.Learn(1, 1'000'000, cost);
  governor.Step({.rate = 0.01});
  EXPECT_EQ(source.level(), 1);
  for (int i = 0; i < 30; ++i) {
    source.Learn(1, 1'000'000, cost);
    governor.Step({.rate = 0.01});
    ASSERT_EQ(source.level(), 1);
  }
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(source.level(), 1);
    source.Learn(1, 10'000, cost);
    governor.Step({.rate = 0.01});
  }
  EXPECT_EQ(source.level(), 0);
}

// Drains of 5,000 threads that rest, ns each.
DrainKnob::Work Drains(int64_t drains, int64_t ns) {
  return {.drains = drains, .cpu_ns = drains * ns, .resting = 5'000 * drains};
}

TEST(DrainKnobTest, ComesLessOften) {
  DrainKnob source;
  EXPECT_EQ(source.CostAt(0), 0);
  EXPECT_EQ(source.Learn(Drains(1, 9'000'000)), 0);
  EXPECT_DOUBLE_EQ(source.CostAt(0), 0.009);
  EXPECT_EQ(source.IntervalAt(0), kSecond);
  EXPECT_EQ(source.IntervalAt(3), 4 * kSecond);
  EXPECT_EQ(source.IntervalAt(source.levels() - 1), 10 * kSecond);
  EXPECT_DOUBLE_EQ(source.CostAt(3), 0.00225);
  EXPECT_THAT(source.GivenUpAt(0), IsEmpty());
  EXPECT_EQ(source.GivenUpAt(3), "accounts are read every 4 s, and when somebody asks for them");
}

TEST(DrainKnobTest, WhatADrainTakesIsTheSameAtEveryInterval) {
  DrainKnob source;
  source.Learn(Drains(1, 9'000'000));
  const double cost = source.CostAt(0);
  // Five of them in five seconds, or one.
  source.Learn(Drains(5, 9'000'000));
  EXPECT_DOUBLE_EQ(source.CostAt(0), cost);
  source.Learn({.drains = 0, .cpu_ns = 7});
  EXPECT_DOUBLE_EQ(source.CostAt(0), cost);
  // One in which all were read does not tell of those to come, unless it is always so.
  DrainKnob::Work whole = Drains(1, 25'000'000);
  whole.whole = true;
  source.Learn(whole);
  EXPECT_DOUBLE_EQ(source.CostAt(0), cost);
  source.Learn(Drains(1, 9'000'000));
  EXPECT_DOUBLE_EQ(source.CostAt(0), cost);
  for (int i = 0; i < 20; ++i) source.Learn(whole);
  EXPECT_GT(source.CostAt(0), 2 * cost);
}

TEST(DrainKnobTest, DrainsThatAreNotPlannedAreToldOf) {
  DrainKnob source;
  Governor governor;
  governor.AddKnob(&source, DrainKnob::kPart);
  const auto learn = [&](double seconds) {
    DrainKnob::Work work = Drains(1, 45'000'000);
    work.seconds = seconds;
    source.Learn(work);
    governor.Step({.rate = 0.01}, seconds);
  };
  learn(1);
  ASSERT_EQ(source.IntervalAt(source.level()), 10 * kSecond);
  for (int i = 0; i < 5; ++i) learn(10);
  EXPECT_NEAR(source.CostNow(), 0.0045, 0.0005);
  // One that comes at once is no load.
  learn(0.1);
  EXPECT_NEAR(source.CostNow(), 0.009, 0.001);
  // Something fills up every 4 s.
  for (int i = 0; i < 15; ++i) learn(4);
  EXPECT_NEAR(source.CostNow(), 0.01125, 0.0001);
  EXPECT_DOUBLE_EQ(source.CostAt(source.level()), 0.0045) << "what is planned is as before";
}

TEST(DrainKnobTest, WhatTicksPutTogetherIsTheirs) {
  DrainKnob source;
  // 1,000 units of a drain, 9 x 100 of threads; 900 counters and 8 x 100 of stacks.
  const int64_t of_ticks = source.Learn(
      {.drains = 1, .cpu_ns = 3'600'000, .threads = 100, .counters = 900, .stacks = 100});
  EXPECT_NEAR(static_cast<double>(of_ticks), 1'700'000, 2);
  EXPECT_NEAR(source.CostAt(0), 0.0019, 1e-6);
}

TEST(DrainKnobTest, KeepsToAQuarterOfTheBudgetWhateverTheTickDoes) {
  DrainKnob drains;
  WaitKnob ticks(10 * kMs);
  ticks.SetByList(true);
  Governor governor;
  governor.AddKnob(&drains, DrainKnob::kPart);
  governor.AddKnob(&ticks);
  drains.Learn(Drains(1, 9'000'000));
  ticks.Learn({.seconds = 1,
               .tick_cpu_ns = 700'000'000,
               .ticks = 100,
               .walks = 0,
               .repeats = 500'000,
               .idle_ticks = 500'000});
  governor.Step({.rate = 0.01});
  EXPECT_EQ(drains.level(), 3);
  EXPECT_GT(ticks.level(), 1);
  EXPECT_LE(drains.CostAt(3) + ticks.CostAt(ticks.level()), 0.009);
  // All but ten threads are gone.
  for (int i = 0; i < 40; ++i) {
    drains.Learn({.drains = 1, .cpu_ns = 300'000, .resting = 10});
    ticks.Learn({.seconds = 1,
                 .tick_cpu_ns = 1'000,
                 .ticks = 10,
                 .walks = 0,
                 .repeats = 10,
                 .idle_ticks = 100});
    governor.Step({.rate = 0.01});
  }
  EXPECT_EQ(drains.level(), 0);
  EXPECT_EQ(ticks.level(), 0);
}

// Units of work as the source weighs them: 200 a tick, 30 a walk, 1 a thread that still waits.
WaitKnob::Work SecondOf(int64_t ticks, int64_t walks, int64_t idle, int64_t stride, int64_t unit_ns,
                        int64_t drain_ns) {
  const int64_t repeats = idle * ticks / stride;
  return {.seconds = 1,
          .tick_cpu_ns = unit_ns * (200 * ticks + 30 * walks + repeats),
          .drain_cpu_ns = drain_ns,
          .ticks = ticks,
          .walks = walks,
          .repeats = repeats,
          .idle_ticks = idle * ticks};
}

TEST(WaitKnobTest, PredictsWhatItWasAtThePresentLevel) {
  WaitKnob source(10 * kMs);
  EXPECT_EQ(source.CostAt(0), 0);
  source.SetByList(true);
  const WaitKnob::Work work = SecondOf(100, 500, 3'200, 1, 100, 2'000'000);
  source.Learn(work);
  EXPECT_DOUBLE_EQ(source.CostAt(0),
                   static_cast<double>(work.tick_cpu_ns + work.drain_cpu_ns) / kSecond);
}

TEST(WaitKnobTest, PredictsOtherLevels) {
  // 100 ns x (200 + 30 x 5 + 3200) x 100 = 35.5 ms, and 2 ms of drains; with 200 of 3200: 5.5 ms.
  // What drains do comes of the ticks.
  WaitKnob source(10 * kMs);
  source.SetByList(true);
  source.Learn(SecondOf(100, 500, 3'200, 1, 100, 2'000'000));
  EXPECT_DOUBLE_EQ(source.CostAt(0), 0.0375);
  EXPECT_DOUBLE_EQ(source.CostAt(1), 0.0075);
  for (int level = 2; level < source.levels(); ++level) {
    const double ratio = static_cast<double>(source.IntervalAt(level)) / (10 * kMs);
    EXPECT_NEAR(source.CostAt(level), (0.0055 * std::pow(ratio, 0.3) + 0.002) / ratio, 1e-9)
        << level;
  }
  // Seen from level 1, all comes out the same.
  WaitKnob strided(10 * kMs);
  strided.SetByList(true);
  strided.Learn(SecondOf(100, 500, 3'200, 16, 100, 2'000'000));
  for (int level = 0; level < source.levels(); ++level) {
    EXPECT_NEAR(strided.CostAt(level), source.CostAt(level), 1e-12) << level;
  }
}

TEST(WaitKnobTest, PredictsFromALongInterval) {
  WaitKnob source(10 * kMs);
  source.Learn(SecondOf(25, 125, 1'000, 1, 100, 0));
  EXPECT_NEAR(source.CostAt(0), 100e-9 * (200 + 150 + 1'000) * 100, 1e-12);
}

TEST(WaitKnobTest, WithoutAListTheStrideIsSkipped) {
  WaitKnob source(10 * kMs);
  source.Learn(SecondOf(100, 500, 3'200, 1, 100, 0));
  for (int level = 0; level < source.levels(); ++level) EXPECT_EQ(source.StrideAt(level), 1U);
  EXPECT_EQ(source.CostAt(1), source.CostAt(0));
  EXPECT_THAT(source.GivenUpAt(1), IsEmpty());
  Governor governor;
  governor.AddKnob(&source);
  governor.Step({.rate = 0.03});
  EXPECT_EQ(source.level(), 2) << "a level that saves nothing is not where it stops";
  source.SetByList(true);
  EXPECT_EQ(source.StrideAt(0), 1U);
  EXPECT_GT(source.StrideAt(1), 1U);
}

TEST(WaitKnobTest, LevelsNeverRaiseTheCost) {
  for (const bool by_list : {false, true}) {
    for (const int64_t interval : {kMs, 10 * kMs, 30 * kMs, 999 * kMs, kSecond, 5 * kSecond}) {
      WaitKnob source(interval);
      source.SetByList(by_list);
      source.Learn(SecondOf(100, 70, 900, 1, 250, 5'000'000));
      EXPECT_EQ(source.IntervalAt(0), interval);
      EXPECT_EQ(source.IntervalAt(1), interval);
      for (int level = 1; level < source.levels(); ++level) {
        EXPECT_LE(source.CostAt(level), source.CostAt(level - 1));
        EXPECT_GE(source.IntervalAt(level), source.IntervalAt(level - 1));
        EXPECT_GE(source.StrideAt(level), source.StrideAt(level - 1));
        EXPECT_LE(source.IntervalAt(level), std::max(interval, kSecond));
      }
      EXPECT_EQ(source.IntervalAt(source.levels() + 5), source.IntervalAt(source.levels() - 1));
    }
  }
  EXPECT_EQ(WaitKnob(10 * kMs).IntervalAt(WaitKnob(10 * kMs).levels() - 1), kSecond);
}

TEST(WaitKnobTest, QuietSecondsKeepWhatWasLearned) {
  WaitKnob source(10 * kMs);
  source.Learn(SecondOf(100, 500, 0, 1, 100, 1'000'000));
  const double cost = source.CostAt(0);
  source.Learn({.seconds = 0, .drain_cpu_ns = 5});
  EXPECT_EQ(source.CostAt(0), cost);
  // No tick fell into this one: only the drain is news.
  source.Learn({.seconds = 1, .drain_cpu_ns = 3'000'000});
  EXPECT_NEAR(source.CostAt(0), cost + 0.002, 1e-12);
}

TEST(WaitKnobTest, SaysWhatIsLost) {
  WaitKnob source(10 * kMs);
  source.SetByList(true);
  EXPECT_THAT(source.GivenUpAt(0), IsEmpty());
  EXPECT_EQ(source.GivenUpAt(1), "threads that only wait are visited at one tick in 16");
  EXPECT_EQ(source.GivenUpAt(2),
            "threads that only wait are visited at one tick in 16, sampling interval 15 ms "
            "instead of 10 ms");
  source.SetByList(false);
  EXPECT_EQ(source.GivenUpAt(3), "sampling interval 20 ms instead of 10 ms");
}

TEST(WaitKnobTest, HundredfoldLoadIsWithinTheBudgetAfterOneStep) {
  WaitKnob source(10 * kMs);
  source.SetByList(true);
  Governor governor;
  governor.AddKnob(&source);
  source.Learn(SecondOf(100, 100, 50, 1, 100, 100'000));
  EXPECT_THAT(governor.Step({.rate = 0.02}), IsEmpty());
  source.Learn(SecondOf(100, 10'000, 5'000, 1, 100, 2'000'000));
  EXPECT_GT(source.CostAt(0), 0.02);
  governor.Step({.rate = 0.02});
  EXPECT_GT(source.level(), 0);
  EXPECT_LE(source.CostAt(source.level()), 0.02);
}

}  // namespace
}  // namespace profd
