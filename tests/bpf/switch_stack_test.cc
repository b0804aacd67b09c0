// Stacks of context switches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <thread>
#include <vector>

#include "tests/bpf/kernel_fixture.h"
#include "tests/support/machine.h"

namespace profd {
namespace {

using ::testing::IsEmpty;

constexpr KernelOptions kSwitchStacks =
    WithLayers({&KernelOptions::switch_layer, &KernelOptions::switch_stack_layer}, true);
constexpr int kNaps = 40;
static_assert(kNaps < PROFD_SWITCH_STACKS);

struct Naps {
  int64_t slept = 0;
};

// Naps whenever the test says so.
void NapAsTold(Child& me, Naps* naps) {
  while (true) {
    me.Wait();
    naps->slept = NapOften(kNaps, kMillisecond);
    me.Signal();
  }
}

// Two threads pass a byte back and forth, `kRounds` times whenever the test says so.
constexpr int kRounds = 5'000;
void PassBytes(Child& me) {
  int there[2], back[2];
  if (pipe(there) != 0 || pipe(back) != 0) _exit(1);
  std::thread echo([&] {
    pthread_setname_np(pthread_self(), "echo");
    char byte;
    while (read(there[0], &byte, 1) == 1) {
      if (write(back[1], &byte, 1) != 1) _exit(1);
    }
  });
  while (true) {
    me.Wait();
    char byte = 'x';
    for (int i = 0; i < kRounds; i++) {
      if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1) _exit(1);
    }
    me.Signal();
  }
}

class SwitchStackKernelTest : public KernelTest {
 protected:
  void Watch(const Child& child, uint32_t one_in = 1) {
    Mark(child);
    ASSERT_TRUE(kernel_->SetSwitchLayer(true).ok());
    Drain(true);
    ASSERT_TRUE(kernel_->SetSwitchStacks(one_in).ok());
    Switches();
  }
  std::vector<CounterEntry> Switches() {
    auto switches = kernel_->DrainSwitchStacks();
    EXPECT_TRUE(switches.ok()) << switches.status();
    Poll();
    return switches.ok() ? *std::move(switches) : std::vector<CounterEntry>();
  }
  // By the kernel's own account, of all threads so far.
  int64_t SwitchesOfAll() const {
    int64_t sum = 0;
    for (const auto& [id, account] : by_thread_) {
      sum += account.sum.voluntary_switches + account.sum.involuntary_switches;
    }
    return sum;
  }
};

// The number of switches of a thread that waits for a reason, by its stack.
int64_t NumberOf(const std::vector<CounterEntry>& switches, profd_reason reason) {
  int64_t sum = 0;
  for (const auto& [key, value] : switches) {
    EXPECT_EQ(key.kind, PROFD_KIND_SWITCH);
    EXPECT_EQ(value.weight, value.count * key.arg0);
    if (key.reason == reason) sum += static_cast<int64_t>(value.weight);
  }
  return sum;
}

TEST_F(SwitchStackKernelTest, FewSwitchesAreAllCounted) {
  const Shared<Naps> naps;
  const Child child([&](Child& me) { NapAsTold(me, &*naps); });
  START_OR_SKIP(kSwitchStacks);
  ASSERT_NO_FATAL_FAILURE(Watch(child));
  child.Signal();
  child.Wait();
  child.AwaitSleep();
  const std::vector<CounterEntry> switches = Switches();
  EXPECT_EQ(NumberOf(switches, PROFD_REASON_SLEEP), naps->slept);
  EXPECT_EQ(NumberOf(switches, PROFD_REASON_PIPE), 1) << "it waits for the next word";
  EXPECT_EQ(Loss(PROFD_LOSS_SWITCH), 0U);
}

// Neither has frames of tracing or of the scheduler.
TEST_F(SwitchStackKernelTest, AStackIsThatWhichATickFinds) {
  REQUIRE_FACT("kernel.kallsyms");
  const Child child([](Child&) { NapForever(20 * kMillisecond); });
  START_OR_SKIP(kSwitchStacks);
  ASSERT_NO_FATAL_FAILURE(Watch(child));
  EXPECT_TRUE(Eventually([&] {
    found_.clear();
    Tick();
    Poll();
    const std::vector<CounterEntry> switches = Switches();
    return std::any_of(found_.begin(), found_.end(), [&](const profd_visit& visit) {
      return visit.reason == PROFD_REASON_SLEEP &&
             std::any_of(switches.begin(), switches.end(), [&](const CounterEntry& entry) {
               return entry.first.thread_id == visit.thread_id && entry.first.stack == visit.stack;
             });
    });
  }));
}

// The expected value is the number of switches, however many were left out.
TEST_F(SwitchStackKernelTest, OfManyOneStandsForOthers) {
  constexpr int kTimes = 20;
  const Child child(PassBytes);
  START_OR_SKIP(kSwitchStacks);
  ASSERT_NO_FATAL_FAILURE(Watch(child));
  Drain(true);
  double estimate = 0, variance = 0, taken = 0;
  const int64_t before = SwitchesOfAll();
  for (int i = 0; i < kTimes; i++) {
    child.Signal();
    child.Wait();
    child.AwaitSleep();
    for (const auto& [key, value] : Switches()) {
      const auto weight = static_cast<double>(value.weight);
      estimate += weight;
      variance += weight * (static_cast<double>(key.arg0) - 1);
      taken += static_cast<double>(value.count);
    }
  }
  Drain(true);
  const auto truth = static_cast<double>(SwitchesOfAll() - before);
  ASSERT_GT(truth, kTimes * kRounds);
  EXPECT_LT(taken, truth / 8);
  EXPECT_NEAR(estimate, truth, 4.5 * std::sqrt(variance));
  EXPECT_LT(std::sqrt(variance), truth / 10);
  EXPECT_EQ(Loss(PROFD_LOSS_SWITCH), 0U);
}

TEST_F(SwitchStackKernelTest, NothingIsLeftOfItWhenItIsOff) {
  const Shared<Naps> naps;
  const Child child([&](Child& me) { NapAsTold(me, &*naps); });
  START_OR_SKIP(kSwitchStacks);
  ASSERT_NO_FATAL_FAILURE(Watch(child));
  EXPECT_TRUE(kernel_->switch_stacks_on());
  ASSERT_TRUE(kernel_->SetSwitchStacks(0).ok());
  EXPECT_FALSE(kernel_->switch_stacks_on());
  const uint64_t before = kernel_->SwitchStackCost().samples;
  child.Signal();
  child.Wait();
  child.AwaitSleep();
  EXPECT_THAT(Switches(), IsEmpty());
  EXPECT_EQ(kernel_->SwitchStackCost().samples, before);
}

TEST_F(SwitchStackKernelTest, WhatFindsNoRoomIsLost) {
  const Shared<Naps> naps;
  const Child child([&](Child& me) { NapAsTold(me, &*naps); });
  KernelOptions options = kSwitchStacks;
  options.limits.counters = 1;
  START_OR_SKIP(options);
  ASSERT_NO_FATAL_FAILURE(Watch(child));
  const profd_switch_stack_cost before = kernel_->SwitchStackCost();
  child.Signal();
  child.Wait();
  child.AwaitSleep();
  uint64_t counted = 0;
  for (const auto& [key, value] : Switches()) counted += value.weight;
  const profd_switch_stack_cost after = kernel_->SwitchStackCost();
  EXPECT_GT(counted, 0U);
  EXPECT_GT(Loss(PROFD_LOSS_SWITCH), 0U);
  EXPECT_EQ(counted + Loss(PROFD_LOSS_SWITCH), after.switches - before.switches);
}

}  // namespace
}  // namespace profd
