// Ticks: samples, their counters, stacks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sys/syscall.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <thread>

#include "daemon/base/clock.h"
#include "tests/bpf/kernel_fixture.h"
#include "tests/support/machine.h"

namespace profd {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

TEST_F(KernelTest, EpochsCountEverySampleOnce) {
  START_OR_SKIP();
  const Child child([](Child& me) {
    for (int i = 1; i <= 8; ++i) std::thread(NapForever, i * kMillisecond).detach();
    me.Signal();
    WaitForever();
  });
  child.Wait();
  Mark(child);
  profd_sample_value drained{};
  uint64_t weight = 0;
  const int64_t deadline = MonotonicNs() + kPatience;
  for (int64_t i = 0; i < 300 || (kernel_->TickStats().off_cpu < 1'000 && MonotonicNs() < deadline);
       ++i) {
    const uint64_t before = kernel_->TickStats().off_cpu;
    Tick(kWeight + i);
    weight += (kernel_->TickStats().off_cpu - before) * static_cast<uint64_t>(kWeight + i);
    Poll();
    if (i % 3 != 0) AddCounters(drained);
  }
  AddCounters(drained);
  EXPECT_GE(drained.count, 1'000U);
  EXPECT_EQ(drained.count, kernel_->TickStats().off_cpu);
  EXPECT_EQ(drained.weight, weight);
  EXPECT_EQ(Loss(PROFD_LOSS_COUNTERS_FULL), 0U);
  const profd_tick_stats stats = kernel_->TickStats();
  // A torn walk is tried once more.
  EXPECT_GE(stats.walks + stats.repeats, stats.off_cpu);
  EXPECT_LE(stats.walks + stats.repeats, stats.off_cpu + stats.torn);
  // Both epochs are empty.
  for (int i = 0; i < 2; ++i) {
    const auto entries = kernel_->DrainCounters();
    ASSERT_TRUE(entries.ok());
    EXPECT_THAT(*entries, IsEmpty());
  }
}

// Every wait is for a futex of its own, and with it has a counter.
TEST_F(KernelTest, FullCounterMapIsCountedAsLoss) {
  KernelOptions options = kCore;
  options.limits.counters = 1024;
  START_OR_SKIP(options);
  const Child child([](Child& me) {
    constexpr size_t kThreads = 100;
    constexpr size_t kFutexes = 1000;
    static uint32_t futexes[kThreads][kFutexes];
    for (auto& own : futexes) {
      std::thread([&own] {
        const timespec timeout = {.tv_sec = 0, .tv_nsec = 10 * kMillisecond};
        for (size_t i = 0;; ++i) {
          syscall(SYS_futex, &own[i % kFutexes], FUTEX_WAIT_PRIVATE, 0, &timeout, nullptr, 0);
        }
      }).detach();
    }
    me.Signal();
    WaitForever();
  });
  child.Wait();
  Mark(child);
  const auto lost = [&] { return Loss(PROFD_LOSS_COUNTERS_FULL); };
  ASSERT_TRUE(Eventually([&] {
    Tick();
    Poll();
    return lost() > 0;
  }));
  profd_sample_value drained{};
  AddCounters(drained);
  EXPECT_EQ(drained.count + lost(), kernel_->TickStats().off_cpu);
  EXPECT_EQ(Loss(PROFD_LOSS_COUNTERS_FULL_NS), lost() * uint64_t{kWeight});
  EXPECT_EQ(drained.weight, drained.count * uint64_t{kWeight});

  // The other epoch has place again, and so has this one once it was drained.
  const uint64_t lost_before = lost();
  for (int i = 0; i < 2; ++i) {
    Tick();
    AddCounters(drained);
  }
  EXPECT_EQ(lost(), lost_before);
  EXPECT_EQ(drained.count + lost(), kernel_->TickStats().off_cpu);
}

// A call's first argument is part of a sample where it names what is waited for. A pointer to a
// timeout would make a counter of each wait.
TEST_F(KernelTest, ArgumentsThatNameNothingAreLeftOut) {
  START_OR_SKIP();
  static uint32_t futex = 0;
  const Child child([](Child& me) {
    std::thread([] {
      static timespec requests[1000];
      for (timespec& request : requests) request = {.tv_sec = 0, .tv_nsec = kMillisecond};
      for (size_t i = 0;; ++i) syscall(SYS_nanosleep, &requests[i % 1000], nullptr);
    }).detach();
    std::thread([] {
      static pollfd nobody[1000];
      for (size_t i = 0;; ++i) syscall(SYS_poll, &nobody[i % 1000], 0, 1);
    }).detach();
    std::thread([] {
      syscall(SYS_futex, &futex, FUTEX_WAIT_PRIVATE, 0, nullptr, nullptr, 0);
    }).detach();
    me.Signal();
    WaitForever();
  });
  child.Wait();
  Mark(child);
  std::map<int32_t, std::set<uint64_t>> arguments;
  ASSERT_TRUE(Eventually([&] {
    for (int i = 0; i < 20; ++i) {
      Tick();
      Poll();
      Nap(kMillisecond);
    }
    const auto entries = kernel_->DrainCounters();
    if (!entries.ok()) return false;
    for (const auto& [key, value] : *entries) arguments[key.sysno].insert(key.arg0);
    return arguments.contains(SYS_nanosleep) && arguments.contains(SYS_poll) &&
           arguments[SYS_futex].contains(reinterpret_cast<uintptr_t>(&futex));
  }));
  EXPECT_THAT(arguments[SYS_nanosleep], ElementsAre(0U));
  EXPECT_THAT(arguments[SYS_poll], ElementsAre(0U));
}

TEST_F(KernelTest, StacksAreSentOnceUntilTrimmed) {
  START_OR_SKIP();
  const Child child([](Child&) { NapForever(2 * kMillisecond); });
  Mark(child);
  for (int i = 0; i < 200; ++i) {
    Tick();
    Poll();
    ASSERT_TRUE(kernel_->TrimKnownStacks(false).ok());
    Nap(kMillisecond);
  }
  std::set<uint64_t> known;
  for (const StackTrace& stack : stacks_) {
    EXPECT_TRUE(known.insert(static_cast<uint64_t>(stack.id)).second) << "a stack was sent twice";
  }
  // Every sample names a stack that was sent.
  const auto entries = kernel_->DrainCounters();
  ASSERT_TRUE(entries.ok());
  EXPECT_GT(entries->size(), 0U);
  for (const auto& [key, value] : *entries) EXPECT_THAT(known, Contains(key.stack));

  ASSERT_TRUE(kernel_->TrimKnownStacks(true).ok());
  stacks_.clear();
  EXPECT_TRUE(Eventually([&] {
    Tick();
    Poll();
    return std::any_of(stacks_.begin(), stacks_.end(), [&](const StackTrace& stack) {
      return known.contains(static_cast<uint64_t>(stack.id));
    });
  }));
}

TEST_F(KernelTest, ListedThreadsAreVisitedAndNoOthers) {
  REQUIRE_FACT("kernel.6_10");
  START_OR_SKIP();
  ASSERT_TRUE(kernel_->ticks_by_list());
  const Child child([](Child& me) {
    std::atomic<int> named = 0;
    std::thread([&] {
      pthread_setname_np(pthread_self(), "spinner");
      ++named;
      while (true) {
      }
    }).detach();
    std::thread([&] {
      pthread_setname_np(pthread_self(), "waiter");
      ++named;
      WaitForever();
    }).detach();
    while (named != 2) Nap(kMillisecond);
    me.Signal();
    WaitForever();
  });
  child.Wait();
  Mark(child);
  ASSERT_THAT(live_, SizeIs(3));
  std::vector<profd_visit> visits;
  for (const profd_thread_record& record : live_) {
    visits.push_back({.thread_id = record.thread_id,
                      .weight_ns = 1'000 + visits.size(),
                      .kernel_tid = record.kernel_tid,
                      .outcome = PROFD_VISIT_NONE});
  }
  // Another thread has the number by now; nobody has it.
  visits.push_back({.thread_id = visits[0].thread_id + 100,
                    .weight_ns = 1,
                    .kernel_tid = visits[0].kernel_tid,
                    .outcome = PROFD_VISIT_NONE});
  visits.push_back({.thread_id = 1, .weight_ns = 1, .kernel_tid = 1 << 30, .outcome = 0});

  const auto outcome = [&](const char* name) {
    for (size_t i = 0; i < live_.size(); ++i) {
      if (CommToString(live_[i].comm) == name) return profd_visit_outcome(visits[i].outcome);
    }
    return PROFD_VISIT_NONE;
  };
  // The rules of what it runs are not there yet, and until they are a wait is walked again.
  Poll();
  for (const profd_module_record& module : modules_) {
    Publish(module.key, {});
  }
  ASSERT_TRUE(kernel_->AnnounceMappings().ok());
  Poll();
  for (const profd_module_record& module : modules_) {
    Publish(module.key, {});
  }
  ASSERT_TRUE(Eventually([&] {
    EXPECT_TRUE(kernel_->TickListed(visits, MonotonicNs()).ok());
    return outcome("waiter") == PROFD_VISIT_SAME && outcome("spinner") == PROFD_VISIT_RUNNING;
  }));
  EXPECT_EQ(visits[3].outcome, uint32_t{PROFD_VISIT_GONE});
  EXPECT_EQ(visits[4].outcome, uint32_t{PROFD_VISIT_GONE});

  // Each sample weighs what its visit says.
  const auto counted = kernel_->DrainCounters();
  ASSERT_TRUE(counted.ok());
  ASSERT_THAT(*counted, Not(IsEmpty()));
  for (const auto& [key, value] : *counted) {
    const auto visit = std::find_if(visits.begin(), visits.begin() + 3,
                                    [&](const auto& v) { return v.thread_id == key.thread_id; });
    ASSERT_NE(visit, visits.begin() + 3);
    EXPECT_EQ(value.weight, value.count * visit->weight_ns);
  }
}

}  // namespace
}  // namespace profd
