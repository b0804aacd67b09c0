#include "daemon/source/heap_accounts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

constexpr WatchId kModule{7};

profd_heap_counter Counter(uint64_t address, uint32_t kind, uint64_t base, uint64_t total,
                           uint64_t seen, uint32_t events) {
  profd_heap_counter counter{};
  counter.address = address;
  counter.kind = kind;
  counter.base = base;
  counter.total = total;
  counter.seen = seen;
  counter.events = events;
  counter.watch_id = static_cast<uint32_t>(kModule);
  return counter;
}

profd_heap_record Record(uint64_t thread, std::vector<profd_heap_counter> counters,
                         bool exiting = false) {
  profd_heap_record record{};
  record.type = PROFD_RECORD_HEAP;
  record.thread_id = thread;
  record.exiting = exiting;
  std::copy(counters.begin(), counters.end(), record.heap.counters);
  return record;
}

LedgerDelta FinishOne(HeapAccounts& accounts) {
  ProfileDelta delta;
  accounts.Finish(delta);
  EXPECT_THAT(delta.ledgers, SizeIs(1));
  return delta.ledgers.empty() ? LedgerDelta{} : delta.ledgers[0].delta;
}

TEST(HeapAccountsTest, ThreadsThatNobodyKnowsAreForgotten) {
  HeapAccounts accounts;
  for (uint64_t id = 1; id <= 100; ++id) {
    profd_heap_record record = Record(id, {Counter(64, PROFD_KIND_ALLOC, 0, 70'000, 66'000, 1)});
    record.unread = id % 2;
    accounts.Apply(record);
  }
  ProfileDelta delta;
  accounts.Finish(delta);
  accounts.KeepOnly([](ThreadId id) { return static_cast<uint64_t>(id) <= 10; });
  EXPECT_EQ(accounts.threads(), 10U);
  EXPECT_THAT(accounts.unread(), SizeIs(5));
  EXPECT_EQ(accounts.events(), 100) << "what they did stays";
}

TEST(HeapAccountsTest, TotalsOfModulesThatAreForgottenGo) {
  HeapAccounts accounts;
  profd_heap_counter other = Counter(64, PROFD_KIND_ALLOC, 0, 70'000, 66'000, 1);
  other.watch_id = 9;
  accounts.Apply(Record(1, {Counter(64, PROFD_KIND_ALLOC, 0, 70'000, 66'000, 1)}));
  accounts.Apply(Record(2, {other}));
  ASSERT_THAT(accounts.allocators(), SizeIs(2));
  accounts.KeepOnlyModules([](WatchId id) { return id == kModule; });
  ASSERT_THAT(accounts.allocators(), SizeIs(1));
  EXPECT_EQ(accounts.allocators().at(kModule).allocated.bytes, 70'000);
  EXPECT_EQ(accounts.bytes(), 140'000) << "what was allocated stays";
}

TEST(HeapAccountsTest, DeltasTelescopeToTheCounter) {
  HeapAccounts accounts;
  // 1,000 bytes before the first event that was seen are not ours.
  accounts.Apply(Record(1, {Counter(64, PROFD_KIND_ALLOC, 1'000, 70'000, 66'000, 1)}));
  LedgerDelta first = FinishOne(accounts);
  EXPECT_EQ(first.allocated.bytes, 69'000);
  EXPECT_EQ(first.allocated.seen_bytes, 66'000);
  EXPECT_EQ(first.allocated.events, 1);
  EXPECT_EQ(first.freed.bytes, 0);
  accounts.Apply(Record(1, {Counter(64, PROFD_KIND_ALLOC, 1'000, 70'500, 66'000, 1),
                            Counter(80, PROFD_KIND_FREE, 0, 65'536, 65'536, 1)}));
  LedgerDelta second = FinishOne(accounts);
  EXPECT_EQ(second.allocated.bytes, 500) << "without an event the counter tells";
  EXPECT_EQ(second.allocated.events, 0);
  EXPECT_EQ(second.freed.bytes, 65'536);
  accounts.Apply(Record(1, {Counter(64, PROFD_KIND_ALLOC, 1'000, 70'500, 66'000, 1),
                            Counter(80, PROFD_KIND_FREE, 0, 65'536, 65'536, 1)}));
  ProfileDelta nothing;
  accounts.Finish(nothing);
  EXPECT_THAT(nothing.ledgers, IsEmpty()) << "a thread that did nothing costs nothing";
  const AllocatorTotals& totals = accounts.allocators().at(kModule);
  EXPECT_EQ(totals.allocated.bytes, 69'500);
  EXPECT_EQ(totals.freed.bytes, 65'536);
  EXPECT_EQ(accounts.events(), 2);
  EXPECT_EQ(accounts.bytes(), 69'500 + 65'536);
}

TEST(HeapAccountsTest, TwoAllocatorsOfOneThreadAddUp) {
  HeapAccounts accounts;
  profd_heap_counter other = Counter(96, PROFD_KIND_ALLOC, 0, 100'000, 100'000, 1);
  other.watch_id = 9;
  accounts.Apply(Record(1, {Counter(64, PROFD_KIND_ALLOC, 0, 70'000, 70'000, 1), other}));
  EXPECT_EQ(FinishOne(accounts).allocated.bytes, 170'000);
  EXPECT_EQ(accounts.allocators().at(kModule).allocated.bytes, 70'000);
  EXPECT_EQ(accounts.allocators().at(WatchId{9}).allocated.bytes, 100'000);
}

TEST(HeapAccountsTest, WhatIsNotToBeCountedIsLeftOutForGood) {
  HeapAccounts accounts;
  ProfileDelta delta;
  accounts.Apply(Record(1, {Counter(64, PROFD_KIND_ALLOC, 0, 70'000, 70'000, 1)}));
  accounts.Apply(Record(1, {Counter(64, PROFD_KIND_ALLOC, 0, 150'000, 150'000, 2)}), false);
  accounts.Apply(Record(1, {Counter(64, PROFD_KIND_ALLOC, 0, 155'000, 150'000, 2)}));
  accounts.Finish(delta);
  ASSERT_EQ(delta.ledgers.size(), 1U);
  EXPECT_EQ(delta.ledgers[0].delta.allocated.bytes, 75'000);
  EXPECT_EQ(delta.ledgers[0].delta.allocated.events, 1);
}

TEST(HeapAccountsTest, GapsAreHandedOn) {
  HeapAccounts accounts;
  profd_heap_counter counter = Counter(64, PROFD_KIND_FREE, 0, 210'000, 140'000, 2);
  counter.gaps = 1;
  counter.unseen = 70'000;
  counter.late = 65'000;
  accounts.Apply(Record(1, {counter}));
  const LedgerDelta delta = FinishOne(accounts);
  EXPECT_EQ(delta.freed.late_bytes, 65'000);
  EXPECT_EQ(delta.freed.gaps, 1);
  EXPECT_EQ(delta.freed.unseen_bytes, 70'000);
}

TEST(HeapAccountsTest, ThreadThatExitsLeavesItsLastAccountAndIsForgotten) {
  HeapAccounts accounts;
  accounts.Apply(Record(1, {Counter(64, PROFD_KIND_ALLOC, 0, 70'000, 70'000, 1)}));
  accounts.Apply(Record(1, {Counter(64, PROFD_KIND_ALLOC, 0, 75'000, 70'000, 1)}, true));
  // Its memory was gone, and what is told is its last event.
  accounts.Apply(Record(2, {Counter(64, PROFD_KIND_ALLOC, 0, 90'000, 70'000, 1)}));
  accounts.Apply(Record(2, {Counter(64, PROFD_KIND_ALLOC, 0, 70'000, 70'000, 1)}, true));
  ProfileDelta delta;
  accounts.Finish(delta);
  ASSERT_THAT(delta.ledgers, SizeIs(2));
  for (const ThreadLedger& ledger : delta.ledgers) {
    EXPECT_EQ(ledger.delta.allocated.bytes, ledger.thread == ThreadId{1} ? 75'000 : 90'000);
  }
  // Ids are never given twice; were it so, the account would begin anew.
  accounts.Apply(Record(1, {Counter(64, PROFD_KIND_ALLOC, 0, 75'000, 70'000, 1)}));
  EXPECT_EQ(FinishOne(accounts).allocated.bytes, 75'000);
}

// What threads had before they were seen, and those of which it will never be known.
TEST(HeapAccountsTest, WhatCameBefore) {
  HeapAccounts accounts;
  const auto unread = [](profd_heap_record record) {
    record.unread = 1;
    return record;
  };
  accounts.Apply(Record(1, {Counter(64, PROFD_KIND_ALLOC, 1'000, 1'500, 0, 0),
                            Counter(80, PROFD_KIND_FREE, 300, 300, 0, 0)}));
  accounts.Apply(unread(Record(2, {Counter(64, PROFD_KIND_ALLOC, 2'000, 2'000, 0, 0)})));
  accounts.Apply(unread(Record(3, {})));
  accounts.Apply(unread(Record(4, {}, true)));
  EXPECT_EQ(FinishOne(accounts).allocated.bytes, 500);
  HeapAccounts::Unseen unseen = accounts.TakeUnseen();
  EXPECT_THAT(unseen.before, ElementsAre(Pair(ThreadId{1}, 1'000), Pair(ThreadId{1}, -300),
                                         Pair(ThreadId{2}, 2'000)));
  EXPECT_THAT(unseen.quiet, ElementsAre(ThreadId{4}));
  EXPECT_THAT(unseen.lost, IsEmpty());
  EXPECT_THAT(accounts.unread(), UnorderedElementsAre(ThreadId{2}, ThreadId{3}));

  accounts.Apply(Record(2, {Counter(64, PROFD_KIND_ALLOC, 2'000, 2'000, 0, 0),
                            Counter(80, PROFD_KIND_FREE, 0, 0, 0, 0)}));
  accounts.Apply(unread(Record(3, {}, true)));
  unseen = accounts.TakeUnseen();
  EXPECT_THAT(unseen.before, IsEmpty()) << "each is told once";
  EXPECT_THAT(unseen.lost, ElementsAre(ThreadId{3}));
  EXPECT_THAT(accounts.unread(), IsEmpty());
}

// Counters lie in the target's memory: any value must be survived.
TEST(HeapAccountsTest, CountersMaySayAnything) {
  HeapAccounts accounts;
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  for (const uint64_t total : {uint64_t{0}, kMost, uint64_t{5}, kMost / 2, uint64_t{1} << 63}) {
    accounts.Apply(Record(1, {Counter(64, PROFD_KIND_ALLOC, kMost, total, total, 3)}));
    accounts.Apply(Record(1, {Counter(total | 1, PROFD_KIND_FREE, 0, total, 0, 0xffffffff)}));
  }
  ProfileDelta delta;
  accounts.Finish(delta);
  EXPECT_THAT(delta.ledgers, SizeIs(1));
}

}  // namespace
}  // namespace profd
