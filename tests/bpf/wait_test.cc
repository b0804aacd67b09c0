// Ticks: samples, their counters, stacks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <thread>

#include "daemon/base/clock.h"
#include "tests/bpf/kernel_fixture.h"
#include "tests/support/end_with.h"
#include "tests/support/machine.h"

namespace profd {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

TEST_F(KernelTest, EverySampleIsToldOnce) {
  START_OR_SKIP();
  const Child child([](Child& me) {
    for (int i = 1; i <= 8; ++i) std::thread(NapForever, i * kMillisecond).detach();
    me.Signal();
    WaitForever();
  });
  child.Wait();
  Mark(child);
  const int64_t deadline = MonotonicNs() + kPatience;
  for (int i = 0; i < 300 || (kernel_->TickStats().off_cpu < 1'000 && MonotonicNs() < deadline);
       ++i) {
    const size_t before = found_.size();
    Tick();
    std::set<uint64_t> threads;
    for (size_t j = before; j < found_.size(); ++j) {
      EXPECT_TRUE(threads.insert(found_[j].thread_id).second) << "twice in a tick";
    }
    Poll();
  }
  EXPECT_GE(found_.size(), 1'000U);
  const profd_tick_stats stats = kernel_->TickStats();
  EXPECT_EQ(found_.size(), stats.off_cpu);
  // A torn walk is tried once more.
  EXPECT_GE(stats.walks + stats.repeats, stats.off_cpu);
  EXPECT_LE(stats.walks + stats.repeats, stats.off_cpu + stats.torn);
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
    for (const profd_visit& visit : found_) {
      // A thread that waits for a CPU waits for who has it.
      if (visit.reason == PROFD_REASON_RUNQUEUE) continue;
      arguments[visit.sysno].insert(visit.arg0);
    }
    return arguments.contains(SYS_nanosleep) && arguments.contains(SYS_poll) &&
           arguments[SYS_futex].contains(reinterpret_cast<uintptr_t>(&futex));
  }));
  EXPECT_THAT(arguments[SYS_nanosleep], ElementsAre(0U));
  EXPECT_THAT(arguments[SYS_poll], ElementsAre(0U));
}

// A thread that was born and had no CPU yet: its stack holds no return address.
TEST_F(KernelTest, ThreadsThatNeverRanHaveWholeStacks) {
  START_OR_SKIP();
  const auto hold_back = [](Child& me) {
    cpu_set_t cpus;
    if (sched_getaffinity(0, sizeof(cpus), &cpus) != 0) _exit(1);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &cpus)) ++cpu;
    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
    if (sched_setaffinity(0, sizeof(cpus), &cpus) != 0) _exit(1);
    me.Signal();
    me.Wait();
    // Nobody else has this CPU while it is a real-time thread's. The kernel allows that for 0.95 s
    // in each second.
    const sched_param realtime{.sched_priority = 1};
    if (sched_setscheduler(0, SCHED_FIFO, &realtime) != 0) _exit(1);
    pthread_attr_t normal;
    const sched_param none{};
    pthread_attr_init(&normal);
    pthread_attr_setinheritsched(&normal, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(&normal, SCHED_OTHER);
    pthread_attr_setschedparam(&normal, &none);
    pthread_t thread;
    const auto end = [](void*) -> void* { return nullptr; };
    if (pthread_create(&thread, &normal, end, nullptr) != 0) _exit(1);
    me.Signal();
    for (const int64_t until = MonotonicNs() + 600 * kMillisecond; MonotonicNs() < until;) {
    }
    WaitForever();
  };
  int whole = 0;
  // The time that the thread is held back may be over before the first tick on a busy machine.
  for (int attempt = 0; attempt < 10 && whole == 0; ++attempt) {
    const Child child(hold_back);
    child.Wait();
    Mark(child);
    child.Signal();
    child.Wait();
    for (int i = 0; i < 20; ++i) {
      found_.clear();
      Tick();
      Poll();
      for (const profd_visit& visit : found_) {
        if (visit.reason != PROFD_REASON_RUNQUEUE) continue;
        for (const StackTrace& stack : stacks_) {
          if (stack.id != StackId{visit.stack}) continue;
          EXPECT_EQ(stack.walk, kWalkComplete) << static_cast<int>(stack.walk);
          EXPECT_EQ(stack.frames.size(), stack.kernel_frames + 1) << "clone";
          whole += stack.walk == kWalkComplete ? 1 : 0;
        }
      }
      Nap(kMillisecond);
    }
  }
  EXPECT_GT(whole, 0);
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
  EXPECT_GT(found_.size(), 0U);
  for (const profd_visit& visit : found_) EXPECT_THAT(known, Contains(visit.stack));

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
  const auto add = [&](uint64_t thread_id, int32_t kernel_tid) {
    profd_visit& visit = visits.emplace_back();
    visit.thread_id = thread_id;
    visit.kernel_tid = kernel_tid;
  };
  for (const profd_thread_record& record : live_) add(record.thread_id, record.kernel_tid);
  // Another thread has the number by now; nobody has it.
  add(visits[0].thread_id + 100, visits[0].kernel_tid);
  add(1, 1 << 30);

  const auto outcome = [&](const char* name) {
    for (size_t i = 0; i < live_.size(); ++i) {
      if (CommToString(live_[i].comm) == name) return profd_visit_outcome(visits[i].outcome);
    }
    return PROFD_VISIT_NONE;
  };
  ASSERT_NO_FATAL_FAILURE(PublishNoRules());
  ASSERT_TRUE(Eventually([&] {
    std::copy(visits.begin(), visits.end(), kernel_->VisitTable().begin());
    EXPECT_TRUE(kernel_->Visit(visits.size(), MonotonicNs()).ok());
    std::copy_n(kernel_->VisitTable().begin(), visits.size(), visits.begin());
    return outcome("waiter") == PROFD_VISIT_SAME && outcome("spinner") == PROFD_VISIT_RUNNING;
  }));
  EXPECT_EQ(visits[3].outcome, uint32_t{PROFD_VISIT_GONE});
  EXPECT_EQ(visits[4].outcome, uint32_t{PROFD_VISIT_GONE});

  // It is told where it waits; its stack was handed over.
  Poll();
  const auto waiter = std::find_if(visits.begin(), visits.begin() + 3, [](const profd_visit& v) {
    return v.outcome == PROFD_VISIT_SAME;
  });
  ASSERT_NE(waiter, visits.begin() + 3);
  EXPECT_EQ(waiter->reason, PROFD_REASON_SIGNAL);
  EXPECT_EQ(waiter->sysno, SYS_pause);
  EXPECT_TRUE(std::any_of(stacks_.begin(), stacks_.end(), [&](const StackTrace& stack) {
    return stack.id == StackId{waiter->stack};
  }));
}

// Until the child runs another program, or ends, its parent waits.
TEST_F(KernelTest, WhoWaitsForAVforkWaitsForAChild) {
  const Child child([](Child& me) {
    me.Wait();
    const pid_t parent = getpid();
    if (vfork() == 0) {
      EndWith(parent);
      pause();
      _exit(0);
    }
    _exit(0);
  });
  START_OR_SKIP();
  Mark(child);
  Drain(true);
  child.Signal();
  EXPECT_TRUE(Eventually([&] {
    found_.clear();
    Tick();
    Poll();
    return std::any_of(found_.begin(), found_.end(), [](const profd_visit& visit) {
      return visit.reason == PROFD_REASON_CHILD && visit.sysno == SYS_vfork;
    });
  }));
}

}  // namespace
}  // namespace profd
