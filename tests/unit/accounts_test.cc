#include "daemon/collect/accounts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <numeric>
#include <random>

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint32_t kRunning = 0;
constexpr uint32_t kInterruptible = 1;
constexpr uint32_t kDeadState = 0x80;
constexpr uint32_t kWaking = 0x200;
constexpr uint32_t kNew = 0x800;
constexpr AccountLayers kAll = {.books = true, .per_switch = true};

size_t Index(Reason reason) { return static_cast<size_t>(reason); }

int64_t Off(const LedgerDelta& delta, Reason reason) { return delta.off_ns[Index(reason)]; }

int64_t Accounted(const LedgerDelta& delta) {
  return delta.on_cpu_ns + delta.unattributed_ns +
         std::accumulate(delta.off_ns.begin(), delta.off_ns.end(), int64_t{0});
}

profd_thread_record Record(uint64_t now, uint32_t type = PROFD_RECORD_THREAD) {
  profd_thread_record record{};
  record.type = type;
  record.target_id = 1;
  record.now = now;
  record.thread_id = 7;
  record.begin = 1'000;
  record.pid = 100;
  record.tid = 107;
  std::strcpy(record.comm, "worker");
  std::strcpy(record.process, "server");
  return record;
}

// In a futex wait since 20,000 that is still going on at 32,000. The scheduler's clock is 8,000
// behind ours: it went on-CPU at 10,000, which the scheduler calls 2,000.
profd_thread_record Blocked() {
  profd_thread_record record = Record(32'000);
  record.state = kInterruptible;
  record.ledger.since = 20'000;
  record.ledger.on_cpu = 10'000;
  record.ledger.off[PROFD_REASON_SLEEP] = 9'000;
  record.ledger.waits[PROFD_REASON_SLEEP] = 1;
  record.ledger.waits[PROFD_REASON_LOCK] = 1;
  record.ledger.run_delay = 500;
  record.ledger.last_in = 10'000;
  record.ledger.phase = PROFD_PHASE_BLOCKED;
  record.ledger.reason = PROFD_REASON_LOCK;
  record.books.run_delay = 500;
  record.books.last_arrival = 2'000;
  return record;
}

// The same thread, woken at 25,000 and not running yet.
profd_thread_record Woken() {
  profd_thread_record record = Blocked();
  record.state = kRunning;
  record.books.last_queued = 17'000;
  return record;
}

// On-CPU since 30,000 after a wait of 10,000 for a lock, 4,000 of it on the run queue.
profd_thread_record JustIn() {
  profd_thread_record record = Blocked();
  record.state = kRunning;
  record.ledger.since = 30'000;
  record.ledger.pending_off = 10'000;
  record.ledger.pending_reason = PROFD_REASON_LOCK;
  record.ledger.phase = PROFD_PHASE_ON_CPU;
  record.books.run_delay = 4'500;
  return record;
}

ProfileDelta Drain(Accounts& accounts, const std::vector<profd_thread_record>& records) {
  for (const profd_thread_record& record : records) accounts.Apply(record);
  ProfileDelta delta;
  accounts.Finish(delta);
  return delta;
}

TEST(TotalsTest, OpenPhaseCountsUpToNow) {
  const struct {
    uint8_t phase;
    int64_t on_cpu, runqueue, lock;
  } cases[] = {{PROFD_PHASE_ON_CPU, 22'000, 0, 0},
               {PROFD_PHASE_RUNQUEUE, 10'000, 12'000, 0},
               {PROFD_PHASE_BLOCKED, 10'000, 0, 12'000}};
  for (const auto& c : cases) {
    profd_thread_record record = Blocked();
    record.ledger.phase = c.phase;
    const LedgerDelta totals = TotalsOf(record, {}, kAll);
    EXPECT_EQ(totals.on_cpu_ns, c.on_cpu);
    EXPECT_EQ(Off(totals, Reason::kRunQueue), c.runqueue);
    EXPECT_EQ(Off(totals, Reason::kLock), c.lock);
    EXPECT_EQ(Off(totals, Reason::kSleep), 9'000);
    EXPECT_EQ(totals.waits[Index(Reason::kLock)], 1);
    EXPECT_EQ(totals.wall_ns, 31'000);
    EXPECT_EQ(Accounted(totals), totals.wall_ns);
  }
}

TEST(TotalsTest, OpenWaitIsSplitAtTheWakeUp) {
  using Change = std::function<void(profd_thread_record&)>;
  const struct {
    const char* what;
    Change change;
    int64_t queued;
  } cases[] = {
      {"woken", [](auto&) {}, 7'000},
      {"being woken", [](auto& r) { r.state = kWaking; }, 7'000},
      {"new", [](auto& r) { r.state = kNew; }, 7'000},
      {"asleep, with an old time stamp", [](auto& r) { r.state = kInterruptible; }, 0},
      {"not queued", [](auto& r) { r.books.last_queued = 0; }, 0},
      {"moved from another queue", [](auto& r) { r.books.run_delay += 1'000; }, 8'000},
      {"woken before it slept", [](auto& r) { r.books.last_queued = 3'000; }, 12'000},
      {"woken after the reading", [](auto& r) { r.books.last_queued = 25'000; }, 0},
      {"never seen to run", [](auto& r) { r.ledger.last_in = 0; r.books.run_delay += 300; }, 300},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.what);
    profd_thread_record record = Woken();
    c.change(record);
    const LedgerDelta totals = TotalsOf(record, {}, kAll);
    EXPECT_EQ(Off(totals, Reason::kRunQueue), c.queued);
    EXPECT_EQ(Off(totals, Reason::kLock), 12'000 - c.queued);
    EXPECT_EQ(Accounted(totals), totals.wall_ns);
  }
}

TEST(TotalsTest, PendingWaitIsSettledByTheBooks) {
  const LedgerDelta totals = TotalsOf(JustIn(), {}, kAll);
  EXPECT_EQ(totals.on_cpu_ns, 12'000);
  EXPECT_EQ(Off(totals, Reason::kRunQueue), 4'000);
  EXPECT_EQ(Off(totals, Reason::kLock), 6'000);
  EXPECT_EQ(Accounted(totals), totals.wall_ns);
}

TEST(TotalsTest, ClocksThatDisagreeLeaveTheSumWhole) {
  profd_thread_record record = JustIn();
  record.books.run_delay = 500 + 10'400;
  const LedgerDelta totals = TotalsOf(record, {}, kAll);
  EXPECT_EQ(Off(totals, Reason::kLock), -400);
  EXPECT_EQ(Accounted(totals), totals.wall_ns);

  // Read while its switch was under way, on a clock that is a little ahead.
  record = Blocked();
  record.now = record.ledger.since - 5;
  EXPECT_EQ(Off(TotalsOf(record, {}, kAll), Reason::kLock), 0);
}

TEST(TotalsTest, UnknownReasonIsOther) {
  profd_thread_record record = Blocked();
  record.ledger.reason = 200;
  EXPECT_EQ(Off(TotalsOf(record, {}, kAll), Reason::kOther), 12'000);
  record = JustIn();
  record.ledger.pending_reason = PROFD_REASON_COUNT;
  EXPECT_EQ(Off(TotalsOf(record, {}, kAll), Reason::kOther), 6'000);
}

TEST(TotalsTest, WithoutTheSwitchLayerTheBooksAddUp) {
  profd_thread_record record = Blocked();
  record.ledger = {};
  record.books.exec_runtime = 5'000;
  record.books.run_delay = 2'000;
  const LedgerDelta totals = TotalsOf(record, {}, {.books = true, .per_switch = false});
  EXPECT_EQ(totals.on_cpu_ns, 5'000);
  EXPECT_EQ(Off(totals, Reason::kRunQueue), 2'000);
  EXPECT_EQ(totals.unattributed_ns, 24'000);
  EXPECT_EQ(Accounted(totals), totals.wall_ns);
}

TEST(TotalsTest, WithoutTheBooksTheSwitchLayerAddsUp) {
  profd_thread_record record = Woken();
  record.books.exec_runtime = 5'000;
  record.books.nvcsw = 3;
  const LedgerDelta totals = TotalsOf(record, {}, {.books = false, .per_switch = true});
  EXPECT_EQ(Accounted(totals), totals.wall_ns);
  EXPECT_EQ(totals.books_on_cpu_ns, 0);
  EXPECT_EQ(totals.voluntary_switches, 0);
  EXPECT_EQ(TotalsOf(record, {}, {.books = false, .per_switch = false}).wall_ns, 31'000);
}

TEST(AccountsTest, BooksCountFromBirthOrFromTheMark) {
  for (const bool born : {true, false}) {
    profd_thread_record record = Blocked();
    record.born = born;
    record.books = {.exec_runtime = 900, .run_delay = 800, .last_arrival = 0, .last_queued = 0,
                    .nvcsw = 7, .nivcsw = 6, .min_flt = 5, .maj_flt = 4, .read_bytes = 3,
                    .write_bytes = 2};
    Accounts accounts(kAll);
    const LedgerDelta first = Drain(accounts, {record}).ledgers.at(0).delta;
    const int64_t kept = born ? 1 : 0;
    EXPECT_EQ(first.books_on_cpu_ns, 900 * kept);
    EXPECT_EQ(first.books_runqueue_ns, 800 * kept);
    EXPECT_EQ(first.voluntary_switches, 7 * kept);
    EXPECT_EQ(first.involuntary_switches, 6 * kept);
    EXPECT_EQ(first.minor_faults, 5 * kept);
    EXPECT_EQ(first.major_faults, 4 * kept);
    EXPECT_EQ(first.read_bytes, 3 * kept);
    EXPECT_EQ(first.write_bytes, 2 * kept);

    record.books.exec_runtime += 50;
    EXPECT_EQ(Drain(accounts, {record}).ledgers.at(0).delta.books_on_cpu_ns, 50);
  }
}

TEST(AccountsTest, DeltasTelescope) {
  std::mt19937_64 random(1);
  const auto next = [&](uint64_t bound) { return random() % bound; };
  Accounts accounts(kAll);
  profd_thread_record record = Record(1'000);
  record.born = 1;
  LedgerDelta sum;
  for (int i = 0; i < 200; ++i) {
    record.ledger.since = record.now + next(500);
    record.now = record.ledger.since + next(1'000);
    record.state = next(2) ? kRunning : kInterruptible;
    record.ledger.phase = static_cast<uint8_t>(next(3));
    record.ledger.reason = static_cast<uint8_t>(next(PROFD_REASON_COUNT));
    record.ledger.pending_off = next(2) * next(700);
    record.ledger.pending_reason = static_cast<uint8_t>(next(PROFD_REASON_COUNT));
    record.books.run_delay += next(300);
    record.books.last_queued = next(record.now);
    record.ledger.last_in = next(record.now);
    // What is closed is whatever the rest leaves of the wall.
    const uint64_t open = record.ledger.pending_off + (record.now - record.ledger.since);
    record.ledger.on_cpu = record.now - record.begin - open;
    const ProfileDelta drained = Drain(accounts, {record});
    const LedgerDelta& delta = drained.ledgers.at(0).delta;
    EXPECT_EQ(Accounted(delta), delta.wall_ns);
    sum.wall_ns += delta.wall_ns;
    sum.on_cpu_ns += delta.on_cpu_ns;
    sum.books_runqueue_ns += delta.books_runqueue_ns;
    for (size_t r = 0; r < kReasonCount; ++r) sum.off_ns[r] += delta.off_ns[r];
  }
  const LedgerDelta whole = TotalsOf(record, {}, kAll);
  EXPECT_EQ(sum.wall_ns, whole.wall_ns);
  EXPECT_EQ(sum.on_cpu_ns, whole.on_cpu_ns);
  EXPECT_EQ(sum.off_ns, whole.off_ns);
  EXPECT_EQ(sum.books_runqueue_ns, whole.books_runqueue_ns);
}

TEST(AccountsTest, LastRecordOfADrainCounts) {
  Accounts accounts(kAll);
  profd_thread_record earlier = Blocked();
  earlier.now = 25'000;
  const ProfileDelta delta = Drain(accounts, {earlier, Blocked()});
  ASSERT_THAT(delta.ledgers, SizeIs(1));
  EXPECT_EQ(delta.ledgers[0].delta.wall_ns, 31'000);
  EXPECT_THAT(Drain(accounts, {}).ledgers, IsEmpty());
}

TEST(AccountsTest, DeadRecordIsFinal) {
  Accounts accounts(kAll);
  Drain(accounts, {Blocked()});
  profd_thread_record dead = Record(40'000, PROFD_RECORD_DEAD);
  dead.state = kDeadState;
  dead.ledger.since = 40'000;
  profd_thread_record zombie = dead;
  zombie.type = PROFD_RECORD_THREAD;
  zombie.now = 45'000;
  const ProfileDelta last = Drain(accounts, {dead, zombie});
  ASSERT_THAT(last.ledgers, SizeIs(1));
  EXPECT_EQ(last.ledgers[0].delta.wall_ns, 8'000);
  ASSERT_THAT(last.threads, SizeIs(1));
  EXPECT_TRUE(last.threads[0].exited);
  EXPECT_EQ(accounts.live_threads(), 0U);
  EXPECT_EQ(accounts.vanished(), 0U);

  // A parent that does not wait for it leaves it in the list of tasks.
  const ProfileDelta later = Drain(accounts, {zombie});
  EXPECT_THAT(later.ledgers, IsEmpty());
  EXPECT_THAT(later.threads, IsEmpty());
  EXPECT_EQ(accounts.live_threads(), 0U);
}

TEST(AccountsTest, ThreadWithoutALastAccountVanishes) {
  Accounts accounts(kAll);
  Drain(accounts, {Blocked()});
  EXPECT_THAT(Drain(accounts, {}).threads, IsEmpty());
  EXPECT_EQ(accounts.vanished(), 0U);
  const ProfileDelta delta = Drain(accounts, {});
  EXPECT_EQ(accounts.vanished(), 1U);
  ASSERT_THAT(delta.threads, SizeIs(1));
  EXPECT_TRUE(delta.threads[0].exited);
  EXPECT_THAT(delta.ledgers, IsEmpty());
  EXPECT_EQ(accounts.live_threads(), 0U);
}

TEST(AccountsTest, ThreadThatIsMissedOnceIsStillThere) {
  Accounts accounts(kAll);
  for (int i = 0; i < 4; ++i) {
    Drain(accounts, {Blocked()});
    Drain(accounts, {});
  }
  EXPECT_EQ(accounts.vanished(), 0U);
  EXPECT_EQ(accounts.live_threads(), 1U);
}

TEST(AccountsTest, StartOfTheExitIsTheLastAccountWithoutTheSwitchLayer) {
  for (const bool per_switch : {false, true}) {
    Accounts accounts({.books = true, .per_switch = per_switch});
    profd_thread_record exiting = Blocked();
    exiting.type = PROFD_RECORD_EXITING;
    Drain(accounts, {exiting});
    Drain(accounts, {});
    const ProfileDelta delta = Drain(accounts, {});
    EXPECT_EQ(accounts.vanished(), per_switch ? 1U : 0U);
    ASSERT_THAT(delta.threads, SizeIs(1));
    EXPECT_TRUE(delta.threads[0].exited);
  }
}

TEST(AccountsTest, NamesAreToldWhenTheyChange) {
  Accounts accounts(kAll);
  profd_thread_record record = Blocked();
  ProfileDelta delta = Drain(accounts, {record, record});
  ASSERT_THAT(delta.threads, SizeIs(1));
  EXPECT_EQ(delta.threads[0].id, ThreadId{7});
  EXPECT_EQ(delta.threads[0].pid, 100);
  EXPECT_EQ(delta.threads[0].tid, 107);
  EXPECT_EQ(delta.threads[0].target, 1U);
  EXPECT_EQ(delta.threads[0].name, "worker");
  EXPECT_EQ(delta.threads[0].process, "server");
  EXPECT_THAT(Drain(accounts, {record}).threads, IsEmpty());

  std::memcpy(record.comm, "sixteen_letters!", PROFD_COMM_LEN);
  delta = Drain(accounts, {record});
  ASSERT_THAT(delta.threads, SizeIs(1));
  EXPECT_EQ(delta.threads[0].name, "sixteen_letters!");

  // Its numbers are gone at its last switch, and with them the name of its process.
  record.type = PROFD_RECORD_DEAD;
  record.pid = record.tid = 0;
  std::strcpy(record.process, "sixteen_letters");
  delta = Drain(accounts, {record});
  ASSERT_THAT(delta.threads, SizeIs(1));
  EXPECT_EQ(delta.threads[0].pid, 100);
  EXPECT_EQ(delta.threads[0].tid, 107);
  EXPECT_EQ(delta.threads[0].process, "server");
}

TEST(AccountsTest, CountsThreadsByTargetAndProcess) {
  Accounts accounts(kAll);
  std::vector<profd_thread_record> records(3, Blocked());
  records[1].thread_id = 8;
  records[2].thread_id = 9;
  records[2].pid = 200;
  records[2].target_id = 2;
  Drain(accounts, records);
  const auto is = [](uint32_t target, int32_t pid, uint32_t threads) {
    return ::testing::AllOf(::testing::Field(&Accounts::TargetThreads::target, target),
                            ::testing::Field(&Accounts::TargetThreads::pid, pid),
                            ::testing::Field(&Accounts::TargetThreads::threads, threads));
  };
  EXPECT_THAT(accounts.ByTarget(), ElementsAre(is(1, 100, 2), is(2, 200, 1)));
}

}  // namespace
}  // namespace profd
