// Events of jemalloc's allocators.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <thread>

#include "tests/bpf/heap_fixture.h"
#include "tests/bpf/kernel_fixture.h"
#include "tests/bpf/probed.h"

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Pair;
using ::testing::SizeIs;

TEST_F(HeapKernelTest, EventsAreWeighedAndTotalsAreExact) {
  START_OR_SKIP(kHeap);
  const Child child([](Child& me) {
    // In anonymous memory, as an allocator's: a drain reads no other.
    static FakeAllocator& allocator = *new FakeAllocator();
    allocator.Allocate(100'000);  // before anybody watches
    me.Wait();
    for (int i = 0; i < 10; ++i) allocator.Allocate(70'000);
    for (int i = 0; i < 5; ++i) allocator.Free(80'000);
    allocator.allocated += 123;  // not yet an event's worth
    me.Signal();
    me.Wait();
    // An event that no probe sees.
    allocator.allocated_last = allocator.allocated += 70'000;
    allocator.Allocate(70'000);
    me.Signal();
    WaitForever();
  });
  Mark(child);
  ASSERT_NO_FATAL_FAILURE(Attach(child.pid()));
  child.Signal();
  child.Wait();
  child.AwaitSleep();
  AddHeapCounters();
  EXPECT_EQ(sums_[PROFD_KIND_ALLOC].count, 10U);
  EXPECT_EQ(sums_[PROFD_KIND_ALLOC].weight, uint64_t{10} * PROFD_HEAP_INTERVAL);
  EXPECT_EQ(sums_[PROFD_KIND_FREE].count, 5U);
  EXPECT_EQ(sums_[PROFD_KIND_FREE].weight, uint64_t{5} * PROFD_HEAP_INTERVAL);
  EXPECT_NE(stacks_of_[PROFD_KIND_ALLOC], stacks_of_[PROFD_KIND_FREE]);
  std::vector<profd_heap_record> records = DrainHeap();
  ASSERT_THAT(records, SizeIs(1));
  const profd_heap_counter& allocated = records[0].heap.counters[0];
  EXPECT_EQ(allocated.kind, uint32_t{PROFD_KIND_ALLOC});
  EXPECT_EQ(allocated.watch_id, 7U);
  EXPECT_EQ(allocated.base, 100'000U);
  EXPECT_EQ(allocated.total, 800'123U) << "read where the allocator keeps it";
  EXPECT_EQ(allocated.seen, 700'000U);
  EXPECT_EQ(allocated.gaps, 0U);
  EXPECT_EQ(records[0].heap.counters[1].total, 400'000U);
  EXPECT_EQ(records[0].heap.counters[2].address, 0U);

  child.Signal();
  child.Wait();
  child.AwaitSleep();
  records = DrainHeap();
  ASSERT_THAT(records, SizeIs(1));
  EXPECT_EQ(records[0].heap.counters[0].gaps, 1U);
  EXPECT_EQ(records[0].heap.counters[0].unseen, 70'123U);
  EXPECT_EQ(records[0].heap.counters[0].total, 940'123U);
  const profd_probe_cost cost = kernel_->HeapCost();
  EXPECT_EQ(cost.events, 16U);
  EXPECT_EQ(cost.walks, 16U);
  EXPECT_GT(cost.walk_ns, 0U);

  // Without the probe nothing runs, and the counters are read all the same.
  probe_ = {};
  EXPECT_THAT(DrainHeap(), SizeIs(1));
}

// A total that could not be read, because the process was changing its mappings, says so.
TEST_F(HeapKernelTest, TotalsBehindALockedMemoryMapAreLate) {
  START_OR_SKIP(kHeap);
  const Child child([](Child& me) {
    static FakeAllocator& allocator = *new FakeAllocator();
    // Changing the protection of many pages takes long, under the lock.
    constexpr size_t kBytes = size_t{512} << 20;
    void* pages = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    std::thread changes([&] {
      while (true) {
        mprotect(pages, kBytes, PROT_READ);
        mprotect(pages, kBytes, PROT_READ | PROT_WRITE);
        usleep(10'000);
      }
    });
    me.Wait();
    allocator.Allocate(70'000);
    allocator.allocated += 123;
    me.Signal();
    WaitForever();
  });
  Mark(child);
  ASSERT_NO_FATAL_FAILURE(Attach(child.pid()));
  child.Signal();
  child.Wait();
  child.AwaitSleep();
  int late = 0, read = 0;
  for (int i = 0; i < 10'000 && (late == 0 || read == 0); ++i) {
    for (const profd_heap_record& record : DrainHeap()) {
      if (record.heap.counters[0].address == 0) continue;
      // A record may also be late for another counter's sake.
      if (record.late != 0 && record.heap.counters[0].total == 70'000)
        ++late;
      else
        EXPECT_EQ(record.heap.counters[0].total, 70'123U);
      read += record.late == 0 ? 1 : 0;
    }
  }
  EXPECT_GT(late, 0);
  EXPECT_GT(read, 0);
}

// The caller of the function that the probe stands on is there without any rule, as is the
// function.
TEST_F(HeapKernelTest, StackBeginsWithTheFunctionAndItsCaller) {
  START_OR_SKIP(kHeap);
  const Child child([](Child& me) {
    static FakeAllocator& allocator = *new FakeAllocator();
    me.Wait();
    allocator.Allocate(70'000);
    me.Signal();
    WaitForever();
  });
  Mark(child);
  ASSERT_NO_FATAL_FAILURE(Attach(child.pid()));
  child.Signal();
  child.Wait();
  Poll();
  ASSERT_THAT(stacks_, SizeIs(1));
  ExpectBeginsWith(stacks_[0], reinterpret_cast<const void*>(&ProfdTestHeapEvent),
                   reinterpret_cast<const void*>(&ProfdTestAllocates));
}

// Threads count while the epochs change under them: every event is in one of them, once.
TEST_F(HeapKernelTest, EpochsCountEveryEventOnce) {
  START_OR_SKIP(kHeap);
  struct State {
    std::atomic<bool> stop = false;
    std::atomic<uint64_t> events = 0, bytes = 0;
    std::atomic<int> running = 4;
  };
  const Shared<State> shared;
  const Child child([&](Child& me) {
    me.Wait();
    for (uint64_t t = 0; t < 4; ++t) {
      std::thread([&shared, t] {
        FakeAllocator allocator{};
        while (!shared->stop) {
          for (uint64_t i = 0; i < 20; ++i) {
            allocator.Allocate(65'536 + t + i);
            shared->bytes += 65'536 + t + i;
          }
          shared->events += 20;
        }
        --shared->running;
        WaitForever();
      }).detach();
    }
    WaitForever();
  });
  Mark(child);
  ASSERT_NO_FATAL_FAILURE(Attach(child.pid()));
  child.Signal();
  // Two hundred epochs at least, and as many events as it takes.
  int epochs = 0;
  ASSERT_TRUE(Eventually([&] {
    AddHeapCounters();
    Poll();
    return ++epochs >= 200 && shared->events >= 2'000;
  }));
  shared->stop = true;
  ASSERT_TRUE(Eventually([&] { return shared->running == 0; }));
  // Both epochs.
  AddHeapCounters();
  AddHeapCounters();
  EXPECT_EQ(Loss(PROFD_LOSS_HEAP_FULL), 0U);
  // An event is lost by name if there is no room for its walk, or if it is the first of its thread
  // and other programs on its CPU keep the kernel from making room for the thread's counts.
  const uint64_t lost = Loss(PROFD_LOSS_HEAP_BUSY) + Loss(PROFD_LOSS_HEAP_STORAGE);
  EXPECT_LT(lost, shared->events / 10);
  EXPECT_EQ(sums_[PROFD_KIND_ALLOC].count + lost, shared->events);
  EXPECT_EQ(sums_[PROFD_KIND_ALLOC].weight, sums_[PROFD_KIND_ALLOC].count * PROFD_HEAP_INTERVAL);
}

// A copy of the event in the middle of a function: its registers say what the function's arguments
// would.
TEST_F(HeapKernelTest, InlinedEventsAreReadFromRegisters) {
  START_OR_SKIP(kHeap);
  const Child child([](Child& me) {
    static FakeAllocator& data = *new FakeAllocator();
    auto* const address = reinterpret_cast<uint64_t*>(&data);
    data.EndEvent();
    me.Wait();
    for (uint64_t i = 1; i <= 3; ++i) {
      data.allocated = 70'000 * i;
      ProfdTestInlinedEvent(data.allocated, address);
      data.EndEvent();
    }
    data.allocated += 75'000;
    data.allocated_last = data.allocated;  // the store lies behind
    ProfdTestStoredEvent(data.allocated, address, 75'000);
    ProfdTestStoredEvent(data.allocated + 1, address, 1);  // one came there another way
    data.EndEvent();
    // The function tells where the counter itself is.
    data.Allocate(80'000);
    data.allocated += 55;
    me.Signal();
    WaitForever();
  });
  Mark(child);
  constexpr uint32_t kRdi = 14, kRsi = 13, kRdx = 12;
  const ProbePlace places[] = {
      {.offset = FileOffset(reinterpret_cast<const void*>(&ProfdTestInlinedEvent)),
       .cookie = PROFD_HEAP_INLINED_COOKIE(PROFD_HEAP_JEMALLOC_INLINED_ALLOC, 1, 9, kRdi,
                                           PROFD_NO_REGISTER, kRsi, 8)},
      {.offset = FileOffset(reinterpret_cast<const void*>(&ProfdTestStoredEvent)),
       .cookie =
           PROFD_HEAP_INLINED_COOKIE(PROFD_HEAP_JEMALLOC_INLINED_ALLOC, 0, 9, kRdi, kRdx, kRsi, 8)},
      {.offset = FileOffset(reinterpret_cast<const void*>(&ProfdTestHeapEvent)),
       .cookie = PROFD_PROBE_COOKIE(PROFD_HEAP_JEMALLOC_EVENT, 0, 9)}};
  ASSERT_NO_FATAL_FAILURE(Attach(child.pid(), places));
  child.Signal();
  child.Wait();
  child.AwaitSleep();
  AddHeapCounters();
  EXPECT_EQ(sums_[PROFD_KIND_ALLOC].count, 5U);
  EXPECT_EQ(sums_[PROFD_KIND_ALLOC].weight, uint64_t{5} * PROFD_HEAP_INTERVAL);
  const std::vector<profd_heap_record> records = DrainHeap();
  ASSERT_THAT(records, SizeIs(1));
  const profd_heap_counter& counter = records[0].heap.counters[0];
  EXPECT_EQ(counter.events, 5U) << "one counter, whichever way an event went";
  EXPECT_EQ(counter.gaps, 0U);
  EXPECT_EQ(counter.total, 365'055U);
  EXPECT_EQ(counter.watch_id, 9U);
  EXPECT_EQ(records[0].heap.counters[1].events, 0U);
  EXPECT_EQ(records[0].heap.counters[2].address, 0U);
  EXPECT_EQ(kernel_->HeapCost().events, 6U);
  EXPECT_EQ(kernel_->HeapCost().stepped, 3U);
}

// Events that no probe sees are told by the next function of the slow path, once each; what is
// given to it must look like a thread's data.
TEST_F(HeapKernelTest, SlowPathTellsOfUnseenEvents) {
  START_OR_SKIP(kHeap);
  const Child child([](Child& me) {
    static FakeAllocator& data = *new FakeAllocator();
    static uint64_t pointers[8] = {0x7f0000001000, 0x7f0000002000, 0x7f0000003000, 0x7f0000004000};
    data.Pass(1'000'000);  // before anybody watches
    me.Wait();
    ProfdTestSlowPath(pointers);  // no thread's data
    ProfdTestSlowPath(&data);     // tells where they lie
    ProfdTestSlowPath(&data);
    data.Pass(70'000);
    data.Pass(80'000);
    ProfdTestSlowPath(&data);  // 150,000, late
    ProfdTestSlowPath(&data);  // nothing new
    data.Allocate(90'000);
    ProfdTestSlowPath(&data);
    data.Pass(65'000);
    data.Allocate(66'000);  // what came before it was not told: a gap
    ProfdTestSlowPath(&data);
    me.Signal();
    WaitForever();
  });
  Mark(child);
  const auto at = [](auto* function) {
    return FileOffset(reinterpret_cast<const void*>(function));
  };
  const ProbePlace places[] = {
      {.offset = at(&ProfdTestSlowPath),
       .cookie = PROFD_HEAP_SLOW_COOKIE(PROFD_HEAP_JEMALLOC_SLOW_ALLOC, 0, 9,
                                        offsetof(FakeAllocator, allocated_last))},
      {.offset = at(&ProfdTestHeapEvent),
       .cookie = PROFD_PROBE_COOKIE(PROFD_HEAP_JEMALLOC_EVENT, 0, 9)}};
  ASSERT_NO_FATAL_FAILURE(Attach(child.pid(), places));
  child.Signal();
  child.Wait();
  AddHeapCounters();
  EXPECT_EQ(sums_[PROFD_KIND_ALLOC].count, 3U);
  EXPECT_EQ(sums_[PROFD_KIND_ALLOC].weight, uint64_t{4} * PROFD_HEAP_INTERVAL)
      << "two intervals, and one each";
  const std::vector<profd_heap_record> records = DrainHeap();
  ASSERT_THAT(records, SizeIs(1));
  const profd_heap_counter& counter = records[0].heap.counters[0];
  EXPECT_EQ(counter.base, 1'000'000U);
  EXPECT_EQ(counter.seen, 306'000U);
  EXPECT_EQ(counter.late, 150'000U);
  EXPECT_EQ(counter.gaps, 1U);
  EXPECT_EQ(counter.unseen, 65'000U);
  EXPECT_EQ(counter.events, 3U);
  EXPECT_EQ(records[0].heap.counters[2].address, 0U) << "pointers are no thread's data";
}

// What comes by at a place is an event if the thread's data are as they are at one; else it leaves
// no trace but in the place's tally. While two probes stand in one place an event is told once.
TEST_F(HeapKernelTest, WhatIsNoEventIsRefused) {
  START_OR_SKIP(kHeap);
  const Child child([](Child& me) {
    static FakeAllocator& data = *new FakeAllocator();
    static uint64_t far[4096];
    auto* const address = reinterpret_cast<uint64_t*>(&data);
    me.Wait();
    data.Allocate(70'000);
    FakeEvent apart{true, &data.allocated, &far[4000]};
    ProfdTestAllocates(&apart);
    FakeEvent event{true, &data.allocated, &data.allocated_last};
    data.allocated += 2;
    std::memset(&event, 7, 1);  // neither an allocation nor none
    ProfdTestAllocates(&event);
    data.EndEvent();
    std::memset(&event, 1, 1);
    data.allocated_next = data.allocated_last + (5 << 20);
    data.allocated += 1;
    ProfdTestAllocates(&event);  // the next one would be due too late
    data.EndEvent();
    data.allocated -= 1'000;
    ProfdTestAllocates(&event);  // the count goes back
    data.allocated = 70'000;
    data.EndEvent();
    data.Allocate(80'000);
    data.depth = 7;  // in the allocator
    data.allocated += 70'000;
    ProfdTestInlinedEvent(data.allocated, address);
    me.Signal();
    WaitForever();
  });
  Mark(child);
  constexpr uint32_t kRdi = 14, kRsi = 13;
  const ProbePlace places[] = {
      {.offset = FileOffset(reinterpret_cast<const void*>(&ProfdTestHeapEvent)),
       .cookie = PROFD_HEAP_NUMBERED(PROFD_PROBE_COOKIE(PROFD_HEAP_JEMALLOC_EVENT, 0, 9), 3)},
      {.offset = FileOffset(reinterpret_cast<const void*>(&ProfdTestInlinedEvent)),
       .cookie = PROFD_HEAP_NUMBERED(PROFD_HEAP_INLINED_COOKIE(PROFD_HEAP_JEMALLOC_INLINED_ALLOC, 1,
                                                               9, kRdi, PROFD_NO_REGISTER, kRsi, 8),
                                     25)}};
  ASSERT_NO_FATAL_FAILURE(Attach(child.pid(), places));
  const Probe first = std::move(probe_);
  ASSERT_NO_FATAL_FAILURE(Attach(child.pid(), places));
  child.Signal();
  child.Wait();
  AddHeapCounters();
  EXPECT_EQ(sums_[PROFD_KIND_ALLOC].count, 2U);
  EXPECT_EQ(sums_[PROFD_KIND_ALLOC].weight, uint64_t{2} * PROFD_HEAP_INTERVAL);
  const std::vector<profd_heap_record> records = DrainHeap();
  ASSERT_THAT(records, SizeIs(1));
  EXPECT_EQ(records[0].heap.counters[0].events, 2U);
  EXPECT_EQ(records[0].heap.counters[0].seen, 150'000U);
  EXPECT_EQ(records[0].heap.counters[1].events, 0U);
  EXPECT_EQ(records[0].heap.counters[2].address, 0U);
  std::map<uint32_t, std::pair<uint64_t, uint64_t>> tallies;
  for (const HeapTally& tally : kernel_->HeapTallies()) {
    EXPECT_EQ(tally.module, WatchId{9});
    tallies[tally.number] = {tally.held, tally.refused};
  }
  EXPECT_THAT(tallies, ElementsAre(Pair(3, Pair(4, 8)), Pair(25, Pair(0, 2))))
      << "each came by at two probes";
  EXPECT_EQ(kernel_->HeapRefusals(), 10U);
  kernel_->ForgetHeapTallies(WatchId{8});
  kernel_->ForgetHeapTallies(WatchId{10});
  EXPECT_THAT(kernel_->HeapTallies(), SizeIs(2));
  kernel_->ForgetHeapTallies(WatchId{9});
  EXPECT_THAT(kernel_->HeapTallies(), IsEmpty());
  EXPECT_EQ(kernel_->HeapRefusals(), 10U) << "since start";
}

// 5 standard deviations: a false alarm in 1.7 million runs.
TEST_F(HeapKernelTest, StacksOfSomeEventsWeighForAll) {
  START_OR_SKIP(kHeap);
  constexpr uint64_t kEvents = 20'000;
  const Child child([](Child& me) {
    static FakeAllocator& allocator = *new FakeAllocator();
    me.Wait();
    for (uint64_t i = 0; i < kEvents; ++i) allocator.Allocate(70'000);
    me.Signal();
    WaitForever();
  });
  Mark(child);
  kernel_->SetHeapSampling(4);
  ASSERT_NO_FATAL_FAILURE(Attach(child.pid()));
  child.Signal();
  child.Wait();
  AddHeapCounters();
  const auto count = static_cast<double>(sums_[PROFD_KIND_ALLOC].count);
  EXPECT_NEAR(count, kEvents / 4.0, 5 * std::sqrt(kEvents * 0.25 * 0.75));
  EXPECT_EQ(sums_[PROFD_KIND_ALLOC].weight,
            sums_[PROFD_KIND_ALLOC].count * PROFD_HEAP_INTERVAL * 4);
  const std::vector<profd_heap_record> records = DrainHeap();
  ASSERT_THAT(records, SizeIs(1));
  EXPECT_EQ(records[0].heap.counters[0].events, kEvents) << "totals know of all";
  EXPECT_EQ(records[0].heap.counters[0].seen, kEvents * 70'000);
  EXPECT_EQ(kernel_->HeapCost().events, kEvents);
}

TEST_F(HeapKernelTest, ThreadThatExitsLeavesItsTotals) {
  START_OR_SKIP(kHeap);
  const Child child([](Child& me) {
    me.Wait();
    static FakeAllocator& allocator = *new FakeAllocator();
    std::thread([] {
      allocator.Allocate(70'000);
      allocator.allocated += 99;
    }).join();
    me.Signal();
    WaitForever();
  });
  Mark(child);
  ASSERT_NO_FATAL_FAILURE(Attach(child.pid()));
  child.Signal();
  child.Wait();
  // The thread is joined before it has gone.
  ASSERT_TRUE(Eventually([&] {
    Poll();
    return !heap_.empty() && CountThreads(child) == 1;
  }));
  ASSERT_THAT(heap_, SizeIs(1));
  EXPECT_EQ(heap_[0].exiting, 1U);
  EXPECT_EQ(heap_[0].heap.counters[0].total, 70'099U);
  const std::vector<profd_heap_record> records = DrainHeap();
  ASSERT_THAT(records, SizeIs(1));
  EXPECT_EQ(records[0].heap.counters[0].address, 0U) << "the other thread has none";
}

// An event of one thread says where all of them keep their data: what those have allocated and
// freed that have no event is read there, as long as they live and when they end.
TEST_F(HeapKernelTest, ThreadsWithoutAnEventAreRead) {
  START_OR_SKIP(kHeap);
  const Child child([](Child& me) {
    static thread_local FakeAllocator allocator;
    std::atomic<int> waiting = 0;
    std::thread old([&] {
      prctl(PR_SET_NAME, "old");
      allocator.Pass(1'000'000);  // before anybody watches
      allocator.allocated += 500;
      allocator.freed += 300;
      ++waiting;
      WaitForever();
    });
    std::thread untouched([&] {
      prctl(PR_SET_NAME, "untouched");
      ++waiting;
      WaitForever();
    });
    while (waiting != 2) Nap(kMillisecond);
    me.Wait();
    allocator.Allocate(70'000);
    FakeEvent freed{false, &allocator.freed, &allocator.freed_last};
    allocator.freed += 10'000;
    ProfdTestFrees(&freed);
    allocator.EndEvent();
    std::thread([] {
      prctl(PR_SET_NAME, "young");
      allocator.EndEvent();
      allocator.allocated = 4'000;
      allocator.freed = 1'000;
    }).join();
    me.Signal();
    WaitForever();
  });
  Mark(child);
  ASSERT_NO_FATAL_FAILURE(Attach(child.pid()));
  child.Signal();
  child.Wait();
  ASSERT_TRUE(Eventually([&] {
    Poll();
    return !heap_.empty() && CountThreads(child) == 3;
  }));
  ASSERT_THAT(heap_, SizeIs(1));
  EXPECT_EQ(heap_[0].exiting, 1U);
  EXPECT_EQ(heap_[0].unread, 0U);
  EXPECT_EQ(heap_[0].none_ended, 1U) << "but it";
  EXPECT_EQ(heap_[0].heap.counters[0].base, 0U);
  EXPECT_EQ(heap_[0].heap.counters[0].total, 4'000U);
  EXPECT_EQ(heap_[0].heap.counters[1].total, 1'000U);
  std::map<uint64_t, profd_heap> by_allocated;
  for (const profd_heap_record& record : DrainHeap()) {
    by_allocated[record.heap.counters[0].total] = record.heap;
    EXPECT_EQ(record.unread, 0U);
    EXPECT_EQ(record.none_ended, 0U);
  }
  ASSERT_THAT(by_allocated, ElementsAre(Key(0), Key(70'000U), Key(1'000'500U)));
  EXPECT_EQ(by_allocated[0].counters[0].address, 0U) << "it never asked the allocator for anything";
  const profd_heap& old = by_allocated[1'000'500];
  EXPECT_EQ(old.counters[0].base, 1'000'000U);
  EXPECT_EQ(old.counters[0].events, 0U);
  EXPECT_EQ(old.counters[0].kind, uint32_t{PROFD_KIND_ALLOC});
  EXPECT_EQ(old.counters[1].kind, uint32_t{PROFD_KIND_FREE});
  EXPECT_EQ(old.counters[1].base, 0U);
  EXPECT_EQ(old.counters[1].total, 300U);
  EXPECT_EQ(old.counters[1].watch_id, 7U);
}

// Between two rounds of probes nothing was to be seen: what happened then is no gap.
TEST_F(HeapKernelTest, TimeWithoutProbesIsNoGap) {
  START_OR_SKIP(kHeap);
  const Shared<uint64_t> allocated;
  const Child child([&](Child& me) {
    static FakeAllocator& allocator = *new FakeAllocator();
    while (true) {
      me.Wait();
      for (int i = 0; i < 3; ++i) allocator.Allocate(70'000);
      *allocated = allocator.allocated;
      me.Signal();
    }
  });
  Mark(child);
  const ProbePlace place = EventPlace();
  const auto round = [&](bool probed) {
    if (probed) Put(child.pid(), {&place, 1});
    child.Signal();
    child.Wait();
    probe_ = {};
    // Memory that cannot be read for the moment is read by a later drain.
    profd_heap_counter counter{};
    EXPECT_TRUE(Eventually([&] {
      const std::vector<profd_heap_record> records = DrainHeap();
      if (!records.empty()) counter = records[0].heap.counters[0];
      return counter.total == *allocated;
    })) << counter.total
        << " instead of " << *allocated;
    return counter;
  };
  kernel_->SetHeapSettled(child.pid(), kModule, true);
  EXPECT_EQ(round(true).seen, 210'000U);
  round(false);
  kernel_->SetHeapSettled(child.pid(), kModule, true);
  profd_heap_counter counter = round(true);
  EXPECT_EQ(counter.seen, 420'000U);
  EXPECT_EQ(counter.total, 630'000U) << "exact, seen or not";
  EXPECT_EQ(counter.gaps, 0U);
  EXPECT_EQ(counter.unseen, 0U);
  // Without a new round it is one.
  round(false);
  counter = round(true);
  EXPECT_EQ(counter.seen, 630'000U);
  EXPECT_EQ(counter.gaps, 1U);
  EXPECT_EQ(counter.unseen, 210'000U);
  // While other probes are still to come nothing counts, and that is no gap either.
  kernel_->SetHeapSettled(child.pid(), kModule, false);
  counter = round(true);
  EXPECT_EQ(counter.seen, 630'000U);
  EXPECT_EQ(counter.total, 1'260'000U);
  kernel_->SetHeapSettled(child.pid(), kModule, true);
  counter = round(true);
  EXPECT_EQ(counter.seen, 840'000U);
  EXPECT_EQ(counter.gaps, 1U);
  // Where it was never said all counts.
  kernel_->ForgetHeapSettled(child.pid(), kModule);
  round(false);
  counter = round(true);
  EXPECT_EQ(counter.seen, 1'050'000U);
  EXPECT_EQ(counter.total, 1'890'000U);
  EXPECT_EQ(counter.gaps, 1U);
  // Slices of many processes make many rounds: the same number does not come again soon.
  kernel_->SetHeapSettled(child.pid(), kModule, true);
  round(true);
  round(false);
  for (int i = 0; i < 1 << 16; ++i) kernel_->SetHeapSettled(child.pid(), kModule, true);
  EXPECT_EQ(round(true).gaps, 1U);
}

// A SIGKILL in the moment in which probes are put in, or taken out: the kernel then cannot write to
// the memory of the process that is probed, and gives up.
TEST_F(HeapKernelTest, KilledWhileItPutsProbesInAndTakesThemOut) {
  START_OR_SKIP(kHeap);
  constexpr int64_t kLatest = kMillisecond;
  const auto* const text = reinterpret_cast<const char*>(&ProfdTestPlaces);
  std::vector<ProbePlace> places;
  for (uint64_t i = 0; i < kPlaces; ++i) places.push_back({.offset = FileOffset(text + i)});
  const Child target([](Child&) { WaitForever(); });
  const auto text_now = [&] {
    std::string bytes(kPlaces, '\0');
    const iovec local{.iov_base = bytes.data(), .iov_len = kPlaces};
    const iovec remote{.iov_base = const_cast<char*>(text), .iov_len = kPlaces};
    EXPECT_EQ(process_vm_readv(target.pid(), &local, 1, &remote, 1, 0),
              static_cast<ssize_t>(kPlaces));
    return bytes;
  };
  const std::string without(text, kPlaces);
  ASSERT_NO_FATAL_FAILURE(Attach(target.pid(), places));
  EXPECT_EQ(text_now(), std::string(kPlaces, '\xcc'));
  const bool together = probe_.links.multi.ok();
  probe_ = Probe();
  ASSERT_EQ(text_now(), without);
  // Where each place has a descriptor of its own the kernel waits for all programs at each.
  const int rounds = together ? 30 : 12;
  if (!together) places.resize(8);

  int left = 0;
  for (int round = 0; round < rounds; ++round) {
    const bool taken_out = round % 2 == 1;
    const Child prober([&](Child& me) {
      if (!taken_out) me.Signal();
      Attach(target.pid(), places);
      if (taken_out) me.Signal();
      probe_ = Probe();
    });
    prober.Wait();
    Nap(kLatest * round / rounds);
    kill(prober.pid(), SIGKILL);
    ASSERT_EQ(waitpid(prober.pid(), nullptr, 0), prober.pid());
    if (text_now() != without) ++left;
  }
  EXPECT_EQ(left, 0);
}

}  // namespace
}  // namespace profd
