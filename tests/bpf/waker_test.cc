// Who ends the waits that a tick has seen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/profile/durations.h"
#include "daemon/source/record.h"
#include "tests/bpf/kernel_fixture.h"
#include "tests/support/machine.h"

namespace profd {
namespace {

using ::testing::Each;
using ::testing::IsEmpty;

constexpr KernelOptions kWakers = WithLayers(
    {&KernelOptions::switch_layer, &KernelOptions::disk_layer, &KernelOptions::waker_layer}, true);
constexpr int64_t kTickWeight = 10 * kMillisecond;

std::string NameIn(const StackTrace& waker, size_t frame) {
  char name[PROFD_COMM_LEN] = {};
  std::memcpy(name, &waker.frames.at(frame), sizeof(name));
  return CommToString(name);
}

// A thread reads a pipe, which the first thread writes to as often as it is told to.
void Relay(Child& me) {
  int ends[2];
  if (pipe(ends) != 0) _exit(1);
  std::thread reader([&] {
    pthread_setname_np(pthread_self(), "reader");
    char byte;
    while (read(ends[0], &byte, 1) == 1) me.Signal();
  });
  while (true) {
    me.Wait();
    if (write(ends[1], "x", 1) != 1) _exit(1);
  }
}

pthread_mutex_t contended_lock = PTHREAD_MUTEX_INITIALIZER;

// A thread waits for a lock. When it is told to, the first thread sends it a signal, and then
// releases the lock.
void Contend(Child& me) {
  struct sigaction action{};
  action.sa_handler = [](int) {};
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, nullptr);
  pthread_mutex_lock(&contended_lock);
  sem_t begin;
  sem_init(&begin, 0, 0);
  std::thread taker([&] {
    pthread_setname_np(pthread_self(), "taker");
    sem_wait(&begin);
    me.Signal();
    pthread_mutex_lock(&contended_lock);
    me.Signal();
    pause();
  });
  me.Wait();
  sem_post(&begin);
  me.Wait();
  pthread_kill(taker.native_handle(), SIGUSR1);
  me.Wait();
  pthread_mutex_unlock(&contended_lock);
  pause();
}

// A thread gives up on a lock, again and again.
constexpr int64_t kDeadline = 30 * kMillisecond;
void GiveUp(Child&) {
  pthread_mutex_lock(&contended_lock);
  std::thread taker([] {
    pthread_setname_np(pthread_self(), "taker");
    while (true) {
      timespec deadline{};
      clock_gettime(CLOCK_MONOTONIC, &deadline);
      const int64_t ns = deadline.tv_nsec + kDeadline;
      deadline.tv_sec += ns / (1000 * kMillisecond);
      deadline.tv_nsec = ns % (1000 * kMillisecond);
      pthread_mutex_clocklock(&contended_lock, CLOCK_MONOTONIC, &deadline);
    }
  });
  pause();
}

class WakerKernelTest : public KernelTest {
 protected:
  void SetUp() override { REQUIRE_FACT("kernel.kallsyms"); }

  void Watch(const Child& child, uint32_t one_in = 1) {
    Mark(child);
    Drain(true);
    kernel_->SetTickWeight(kTickWeight);
    ASSERT_TRUE(kernel_->SetWakers(one_in).ok());
  }
  uint64_t IdOf(const std::string& name) {
    for (const profd_thread_record& thread : live_) {
      if (CommToString(thread.comm) == name) return thread.thread_id;
    }
    return 0;
  }
  // Ticks until one finds the thread asleep. Returns where.
  profd_visit Found(uint64_t thread_id) {
    profd_visit visit{};
    EXPECT_TRUE(Eventually([&] {
      found_.clear();
      Tick();
      Poll();
      const auto found = std::find_if(found_.begin(), found_.end(), [&](const profd_visit& v) {
        return v.thread_id == thread_id && v.reason != PROFD_REASON_RUNQUEUE;
      });
      if (found != found_.end()) visit = *found;
      return found != found_.end();
    }));
    return visit;
  }
  std::vector<CounterEntry> Wakers() {
    auto wakers = kernel_->DrainWakerCounters();
    EXPECT_TRUE(wakers.ok()) << wakers.status();
    Poll();
    return wakers.ok() ? *std::move(wakers) : std::vector<CounterEntry>();
  }
  // The next wait for a lock that ends of a thread. `look` is called again and again.
  CounterEntry Ended(uint64_t thread_id, const std::function<void()>& look = [] {}) {
    CounterEntry ended{};
    EXPECT_TRUE(Eventually([&] {
      look();
      for (const CounterEntry& entry : Wakers()) {
        const auto& [key, value] = entry;
        if (key.kind == PROFD_KIND_ENDED && key.thread_id == thread_id) ended = entry;
      }
      return ended.second.weight > 0;
    }));
    return ended;
  }
  const StackTrace& Stack(uint64_t id) {
    const auto found = std::find_if(stacks_.begin(), stacks_.end(),
                                    [&](const StackTrace& s) { return s.id == StackId{id}; });
    static const StackTrace kNone;
    EXPECT_NE(found, stacks_.end()) << "stack " << id;
    return found == stacks_.end() ? kNone : *found;
  }
};

TEST_F(WakerKernelTest, TargetsAreNamedWithTheirStacksAndStrangersByTheKernelsPart) {
  const Child child(Relay);
  START_OR_SKIP(kWakers);
  ASSERT_NO_FATAL_FAILURE(Watch(child));
  const uint64_t reader = IdOf("reader");
  ASSERT_NE(reader, 0U);
  // Both threads sleep by then: the other one has been found asleep to be marked.
  const profd_visit visit = Found(reader);
  Wakers();
  Tick();
  child.Signal();
  child.Wait();
  bool by_target = false, by_stranger = false;
  for (const auto& [key, value] : Wakers()) {
    EXPECT_EQ(key.kind, PROFD_KIND_WAKER);
    EXPECT_EQ(value.weight, value.count * kTickWeight);
    const StackTrace& stack = Stack(key.stack);
    ASSERT_GT(stack.kernel_frames, PROFD_WAKER_NAME_FRAMES);
    if (key.thread_id == reader) {
      by_target = true;
      EXPECT_EQ(key.arg0, visit.stack);
      EXPECT_EQ(key.reason, PROFD_REASON_PIPE);
      EXPECT_GE(value.count, 1U);
      EXPECT_NE(NameIn(stack, 2), "reader");
      EXPECT_GT(stack.frames.size(), stack.kernel_frames);
    } else {
      // This program, which is no target.
      by_stranger = true;
      EXPECT_EQ(NameIn(stack, 0), NameIn(stack, 2));
      EXPECT_EQ(stack.frames.size(), stack.kernel_frames);
      EXPECT_EQ(stack.walk, kWalkComplete);
    }
  }
  EXPECT_TRUE(by_target);
  EXPECT_TRUE(by_stranger);
  EXPECT_EQ(Loss(PROFD_LOSS_WAKER_LOST), 0U);
}

// Ticks that passed over a quiet thread weigh as much as those that visited it, and it is marked as
// soon as somebody wakes it.
TEST_F(WakerKernelTest, QuietThreadsAreMarkedAndKeepTheirWeight) {
  REQUIRE_FACT("kernel.6_10");
  const Child child(Relay);
  START_OR_SKIP(kWakers);
  ASSERT_TRUE(kernel_->ticks_by_list());
  ASSERT_NO_FATAL_FAILURE(Watch(child));
  const auto reader = std::find_if(live_.begin(), live_.end(), [](const profd_thread_record& t) {
    return CommToString(t.comm) == "reader";
  });
  ASSERT_NE(reader, live_.end());
  ASSERT_NO_FATAL_FAILURE(PublishNoRules());
  const WokenMarks woken = kernel_->Woken();
  ASSERT_NE(woken.turn, 0U);
  ASSERT_EQ(woken.marks.size(), size_t{PROFD_SLOTS});
  constexpr uint32_t kSlot = 5;
  profd_visit& entry = kernel_->VisitTable()[0];
  TickSum sum;
  const auto visit = [&](bool known, bool quiet) {
    entry = {};
    entry.thread_id = reader->thread_id;
    entry.kernel_tid = reader->kernel_tid;
    entry.known = known ? 1 : 0;
    entry.stride = 1;
    entry.slot = kSlot;
    entry.quiet = quiet ? 1 : 0;
    const TickSum now = {.ns = sum.ns + kTickWeight, .ticks = sum.ticks + 1};
    kernel_->SetTickSums(sum, now);
    sum = now;
    EXPECT_TRUE(kernel_->Visit(1, MonotonicNs()).ok());
    return uint32_t{entry.outcome};
  };
  // Two visits count for the wait. The first alone may have found the thread preempted on its way
  // into the wait.
  constexpr uint32_t kVisitsOfFinding = 2;
  const auto find_asleep = [&] {
    EXPECT_TRUE(Eventually([&] {
      return visit(false, false) == PROFD_VISIT_NEW && entry.reason == PROFD_REASON_PIPE &&
             visit(true, false) == PROFD_VISIT_STILL;
    }));
  };
  // Returns the number of visits. The first may be too early: the kernel may leave a thread that
  // sleeps on the run queue for a while.
  const auto become_quiet = [&] {
    uint32_t visits = 0;
    EXPECT_TRUE(Eventually([&] {
      ++visits;
      EXPECT_EQ(visit(true, true), uint32_t{PROFD_VISIT_STILL});
      return entry.quiet != 0;
    }));
    return visits;
  };
  const auto pass_over = [&](uint32_t ticks) {
    const TickSum now = {.ns = sum.ns + ticks * kTickWeight, .ticks = sum.ticks + ticks};
    kernel_->SetTickSums(sum, now);
    sum = now;
  };
  for (const bool looked_at_again : {false, true}) {
    find_asleep();
    child.Signal();
    child.Wait();
    find_asleep();
    Wakers();
    woken.marks[kSlot] = 0;
    uint32_t ticks = kVisitsOfFinding;
    ticks += become_quiet();
    pass_over(40);
    ticks += 40;
    if (looked_at_again) {
      ticks += become_quiet();
      pass_over(2);
      ticks += 2;
    }
    EXPECT_EQ(woken.marks[kSlot], 0);
    child.Signal();
    child.Wait();
    EXPECT_EQ(woken.marks[kSlot], 1);
    std::vector<CounterEntry> of_reader;
    for (const CounterEntry& waker : Wakers()) {
      if (waker.first.thread_id == reader->thread_id) of_reader.push_back(waker);
    }
    ASSERT_EQ(of_reader.size(), 1U);
    EXPECT_EQ(of_reader[0].second.count, ticks);
    EXPECT_EQ(of_reader[0].second.weight, ticks * kTickWeight);
  }
  ASSERT_TRUE(kernel_->SetWakers(0).ok());
  EXPECT_EQ(kernel_->Woken().turn, 0U);
}

TEST_F(WakerKernelTest, TimerIsNobody) {
  const Child child([](Child&) { NapForever(20 * kMillisecond); });
  START_OR_SKIP(kWakers);
  ASSERT_NO_FATAL_FAILURE(Watch(child));
  std::vector<CounterEntry> wakers;
  ASSERT_TRUE(Eventually([&] {
    Tick();
    Nap(kMillisecond);
    const std::vector<CounterEntry> more = Wakers();
    wakers.insert(wakers.end(), more.begin(), more.end());
    return wakers.size() >= 3;
  }));
  for (const auto& [key, value] : wakers) {
    EXPECT_EQ(key.reason, PROFD_REASON_SLEEP);
    const StackTrace& stack = Stack(key.stack);
    ASSERT_GE(stack.frames.size(), size_t{PROFD_WAKER_NAME_FRAMES});
    const std::vector<uint64_t> names(stack.frames.begin(),
                                      stack.frames.begin() + PROFD_WAKER_NAME_FRAMES);
    EXPECT_THAT(names, Each(0U)) << NameIn(stack, 0) << " " << NameIn(stack, 2);
    EXPECT_GT(stack.frames.size(), size_t{PROFD_WAKER_NAME_FRAMES});
    // What was interrupted is not there.
    EXPECT_EQ(stack.frames.size(), stack.kernel_frames);
  }
}

TEST_F(WakerKernelTest, WaitsForLocksSayHowTheyEndedAndStandForTheirNumber) {
  const Child child(Contend);
  START_OR_SKIP(kWakers);
  ASSERT_NO_FATAL_FAILURE(Watch(child));
  const uint64_t taker = IdOf("taker");
  child.Signal();
  child.Wait();
  for (const uint32_t end : {PROFD_END_SIGNAL, PROFD_END_WOKEN}) {
    const profd_visit visit = Found(taker);
    EXPECT_EQ(visit.reason, PROFD_REASON_LOCK);
    Wakers();
    child.Signal();
    const auto [key, value] = Ended(taker);
    EXPECT_EQ(PROFD_ENDED_END(key.sysno), end);
    EXPECT_EQ(PROFD_ENDED_SYSNO(key.sysno), visit.sysno);
    EXPECT_EQ(key.stack, visit.stack);
    EXPECT_EQ(key.arg0, visit.arg0);
    EXPECT_EQ(key.reason, PROFD_REASON_LOCK);
    // The weight is known but for the number of visits, the length by its bucket.
    const uint32_t bucket = PROFD_ENDED_BUCKET(key.sysno);
    const auto longest = static_cast<double>(DurationBucketBegin(bucket + 1));
    EXPECT_GE(static_cast<double>(value.weight) / PROFD_ENDED_ONE, kTickWeight / longest - 0.01);
    const double number = static_cast<double>(value.weight) / PROFD_ENDED_ONE;
    EXPECT_NEAR(static_cast<double>(value.count) / PROFD_ENDED_ONE, number * number, 0.01);
  }
  child.Wait();
}

TEST_F(WakerKernelTest, WaitsForLocksThatAreGivenUpOnEndAtTheirDeadline) {
  const Child child(GiveUp);
  START_OR_SKIP(kWakers);
  ASSERT_NO_FATAL_FAILURE(Watch(child));
  const uint64_t taker = IdOf("taker");
  // Of the first wait, the begin is not known.
  const auto [key, value] = Ended(taker, [&] { Found(taker); });
  EXPECT_EQ(PROFD_ENDED_END(key.sysno), uint32_t{PROFD_END_TIMEOUT});
  EXPECT_GE(PROFD_ENDED_BUCKET(key.sysno), profd_duration_bucket(kDeadline * 9 / 10));
}

// A row for who ended a wait takes the only place, so that there is none for how it ended.
TEST_F(WakerKernelTest, WhatFindsNoRoomIsWhatIsLost) {
  const Child child(GiveUp);
  KernelOptions options = kWakers;
  options.limits.counters = 1;
  START_OR_SKIP(options);
  ASSERT_NO_FATAL_FAILURE(Watch(child));
  const uint64_t taker = IdOf("taker");
  // Of the first wait, the begin is not known.
  EXPECT_TRUE(Eventually([&] {
    Wakers();
    const uint64_t before = kernel_->WakerCost().walks;
    Found(taker);
    EXPECT_TRUE(Eventually([&] { return kernel_->WakerCost().walks > before; }));
    return Loss(PROFD_LOSS_LOCK_WAIT) > 0;
  }));
  EXPECT_EQ(Loss(PROFD_LOSS_WAKER_LOST), 0U);
  EXPECT_EQ(Loss(PROFD_LOSS_WAKER_LOST_NS), 0U);
  const std::vector<CounterEntry> wakers = Wakers();
  ASSERT_EQ(wakers.size(), 1U);
  EXPECT_EQ(wakers[0].first.kind, PROFD_KIND_WAKER);
}

// The cost is that of waits that a tick has seen.
TEST_F(WakerKernelTest, WaitsThatNoTickSawAreNotCounted) {
  const Child child(Relay);
  START_OR_SKIP(kWakers);
  ASSERT_NO_FATAL_FAILURE(Watch(child));
  const profd_waker_cost before = kernel_->WakerCost();
  for (int i = 0; i < 100; i++) {
    child.Signal();
    child.Wait();
  }
  EXPECT_THAT(Wakers(), IsEmpty());
  const profd_waker_cost after = kernel_->WakerCost();
  EXPECT_GT(after.wakes, before.wakes);
  EXPECT_EQ(after.walks, before.walks);
  // Nothing of it is left when it is off.
  ASSERT_TRUE(kernel_->SetWakers(0).ok());
  EXPECT_FALSE(kernel_->wakers_on());
  Found(IdOf("reader"));
  child.Signal();
  child.Wait();
  EXPECT_THAT(Wakers(), IsEmpty());
  EXPECT_EQ(kernel_->WakerCost().wakes, after.wakes);
}

TEST_F(WakerKernelTest, OneOfSeveralStandsForAllOfThem) {
  constexpr uint32_t kOneIn = 4;
  const Child child(Relay);
  START_OR_SKIP(kWakers);
  ASSERT_NO_FATAL_FAILURE(Watch(child, kOneIn));
  const uint64_t reader = IdOf("reader");
  std::vector<CounterEntry> wakers;
  ASSERT_TRUE(Eventually([&] {
    Found(reader);
    child.Signal();
    child.Wait();
    const std::vector<CounterEntry> more = Wakers();
    wakers.insert(wakers.end(), more.begin(), more.end());
    return wakers.size() >= 4;
  }));
  for (const auto& [key, value] : wakers) {
    EXPECT_EQ(value.weight, value.count * kOneIn * kTickWeight);
  }
}

}  // namespace
}  // namespace profd
