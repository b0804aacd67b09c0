#include "daemon/source/accounts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>

#include "daemon/source/thread_totals.h"

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
// The scheduler's clock is this far behind ours.
constexpr int64_t kClock = 8'000;

size_t Index(Reason reason) { return static_cast<size_t>(reason); }

int64_t Off(const LedgerDelta& delta, Reason reason) { return delta.off_ns[Index(reason)]; }

int64_t Accounted(const LedgerDelta& delta) {
  return delta.on_cpu_ns + delta.unattributed_ns +
         std::accumulate(delta.off_ns.begin(), delta.off_ns.end(), int64_t{0});
}

int64_t Waits(const LedgerDelta& delta) {
  return std::accumulate(delta.waits.begin(), delta.waits.end(), int64_t{0});
}

int64_t Switches(const LedgerDelta& delta) {
  return delta.voluntary_switches + delta.involuntary_switches;
}

profd_thread_record Record(uint64_t now, uint32_t type = PROFD_RECORD_THREAD) {
  profd_thread_record record{};
  record.type = type;
  record.target_id = 1;
  record.now = now;
  record.clock = now - kClock;
  record.thread_id = 7;
  record.begin = 1'000;
  record.begin_clock = 1'000 - kClock;
  record.armed_at = 1'000;
  record.pid = 100;
  record.tid = 107;
  std::strcpy(record.comm, "worker");
  std::strcpy(record.process, "server");
  return record;
}

// In a futex wait since 20,000 that is still going on at 32,000.
profd_thread_record Blocked() {
  profd_thread_record record = Record(32'000);
  record.state = kInterruptible;
  record.begin_exec = 100;
  record.begin_delay = 200;
  record.ledger.since = 20'000 - kClock;
  record.ledger.exec_runtime = 100 + 9'500;
  record.ledger.run_delay = 200 + 500;
  record.ledger.reasons[PROFD_REASON_SLEEP] = {.ns = 9'000, .count = 1};
  record.ledger.reasons[PROFD_REASON_LOCK] = {.ns = 0, .count = 1};
  record.ledger.phase = PROFD_PHASE_BLOCKED;
  record.ledger.reason = PROFD_REASON_LOCK;
  record.books.exec_runtime = 100 + 9'500;
  record.books.run_delay = 200 + 500;
  record.books.last_arrival = 10'000 - kClock;
  return record;
}

// The same thread, woken at 25,000 and not running yet.
profd_thread_record Woken() {
  profd_thread_record record = Blocked();
  record.state = kRunning;
  record.books.last_queued = 25'000 - kClock;
  return record;
}

// Running since 29,000, of which the books have the first 2,000.
profd_thread_record Running() {
  profd_thread_record record = Blocked();
  record.state = kRunning;
  record.on_cpu = 1;
  record.books.run_delay += 4'000;
  record.books.exec_runtime += 2'000;
  record.books.last_arrival = 29'000 - kClock;
  return record;
}

ProfileDelta Finish(Accounts& accounts) {
  ProfileDelta delta;
  accounts.Finish(delta);
  return delta;
}

ProfileDelta Drain(Accounts& accounts, const std::vector<profd_thread_record>& records) {
  for (const profd_thread_record& record : records) accounts.Apply(record);
  return Finish(accounts);
}

// What a kernel and the per-switch layer would keep of one thread whose life is told step by step,
// and what is true of it.
class Life {
 public:
  struct Truth {
    int64_t on_cpu = 0;
    std::array<int64_t, kReasonCount> off{};
  };

  // On the run queue at `now`, new.
  explicit Life(uint64_t now, bool born = true) : now_(now) {
    record_ = Record(now);
    record_.begin = now;
    record_.born = born ? 1 : 0;
    record_.state = kNew;
    queued_at_ = now;
    record_.books.last_queued = now - kClock;
    if (!born) {
      record_.books = {.exec_runtime = 5'000'000,
                       .run_delay = 600'000,
                       .last_arrival = 0,
                       .last_queued = now - kClock,
                       .nvcsw = 70,
                       .nivcsw = 7,
                       .min_flt = 3,
                       .maj_flt = 2,
                       .read_bytes = 1,
                       .write_bytes = 1};
    }
    Open();
  }

  // Opens the account anew, with the thread in whatever it does.
  void Open() {
    record_.begin = now_;
    record_.begin_clock = now_ - kClock;
    record_.begin_exec = record_.books.exec_runtime;
    record_.begin_delay = record_.books.run_delay;
    record_.ledger = {};
    truth_ = {};
    Arm();
  }

  void Pass(int64_t ns) {
    now_ += static_cast<uint64_t>(ns);
    (record_.on_cpu != 0 ? truth_.on_cpu : truth_.off[Index(doing_)]) += ns;
  }
  // On its CPU, which is taken away for a time that the scheduler does not book.
  void Stolen(int64_t ns) {
    Book();
    now_ += static_cast<uint64_t>(ns);
    truth_.off[Index(Reason::kRunQueue)] += ns;
    booked_at_ = now_;
  }
  // The scheduler's own tick.
  void Book() {
    if (record_.on_cpu == 0) return;
    record_.books.exec_runtime += now_ - booked_at_;
    booked_at_ = now_;
  }
  void In() {
    record_.books.run_delay += now_ - queued_at_;
    record_.books.last_queued = 0;
    record_.books.last_arrival = now_ - kClock;
    record_.on_cpu = 1;
    record_.state = kRunning;
    booked_at_ = now_;
  }
  void Block(Reason reason) { Out(PROFD_PHASE_BLOCKED, reason, kInterruptible); }
  void Preempt() {
    Out(PROFD_PHASE_RUNQUEUE, Reason::kRunQueue, kRunning);
    Queue();
  }
  void Wake() { Queue(); }

  // The drain brings the ledger up to the layer's epoch.
  void Arm() {
    record_.armed_at = now_;
    record_.ledger.since = now_ - kClock;
    record_.ledger.exec_runtime = record_.books.exec_runtime;
    record_.ledger.run_delay = record_.books.run_delay;
    const bool runnable = record_.state != kInterruptible;
    record_.ledger.reason = static_cast<uint8_t>(runnable ? Reason::kRunQueue : doing_);
    record_.ledger.phase = !runnable             ? PROFD_PHASE_BLOCKED
                           : record_.on_cpu != 0 ? PROFD_PHASE_ON_CPU
                                                 : PROFD_PHASE_RUNQUEUE;
  }
  void Shed() { record_.armed_at = 0; }
  bool armed() const { return record_.armed_at != 0; }
  // The next switch is not reported to the layer.
  void MissNext() { miss_next_ = true; }

  profd_thread_record Read() const {
    profd_thread_record record = record_;
    record.now = now_;
    record.clock = now_ - kClock;
    return record;
  }
  const Truth& truth() const { return truth_; }
  bool on_cpu() const { return record_.on_cpu != 0; }
  bool blocked() const { return record_.state == kInterruptible; }
  // Run time, and run-queue time, that the books do not have yet.
  int64_t Unbooked() const {
    if (on_cpu()) return static_cast<int64_t>(now_ - booked_at_);
    return blocked() ? 0 : static_cast<int64_t>(now_ - queued_at_);
  }

 private:
  void Queue() {
    doing_ = Reason::kRunQueue;
    record_.state = kRunning;
    queued_at_ = now_;
    record_.books.last_queued = now_ - kClock;
  }
  void Out(uint8_t phase, Reason reason, uint32_t state) {
    Book();
    ++(phase == PROFD_PHASE_BLOCKED ? record_.books.nvcsw : record_.books.nivcsw);
    record_.on_cpu = 0;
    record_.state = state;
    doing_ = reason;
    if (miss_next_ || !armed()) {
      miss_next_ = false;
      return;
    }
    profd_ledger& ledger = record_.ledger;
    const uint64_t ran = record_.books.exec_runtime - ledger.exec_runtime;
    uint64_t rest =
        now_ - kClock - ledger.since - ran - (record_.books.run_delay - ledger.run_delay);
    const auto stolen = static_cast<int64_t>(now_ - kClock - record_.books.last_arrival - ran);
    if (ledger.phase != PROFD_PHASE_ON_CPU && stolen > 0) {
      ledger.reasons[PROFD_REASON_RUNQUEUE].ns += static_cast<uint64_t>(stolen);
      rest -= static_cast<uint64_t>(stolen);
    }
    ledger.reasons[ledger.reason].ns += rest;
    ledger.exec_runtime = record_.books.exec_runtime;
    ledger.run_delay = record_.books.run_delay;
    ledger.since = now_ - kClock;
    ledger.phase = phase;
    ledger.reason = static_cast<uint8_t>(reason);
    ++ledger.reasons[ledger.reason].count;
  }

  profd_thread_record record_{};
  uint64_t now_;
  uint64_t queued_at_ = 0, booked_at_ = 0;
  Reason doing_ = Reason::kRunQueue;
  bool miss_next_ = false;
  Truth truth_;
};

// All that a drain says of its one thread.
LedgerDelta OnlyOne(const ProfileDelta& drained) {
  EXPECT_GE(drained.ledgers.size() + drained.resting.size(), 1U);
  EXPECT_LE(drained.ledgers.size(), 1U);
  EXPECT_LE(drained.resting.size(), 1U);
  LedgerDelta delta;
  for (const ThreadLedger& ledger : drained.ledgers) delta = ledger.delta;
  for (const RestingThread& rest : drained.resting) AddRest(rest, &delta);
  EXPECT_EQ(Accounted(delta), delta.wall_ns);
  return delta;
}

LedgerDelta DrainOne(Accounts& accounts, const Life& life) {
  return OnlyOne(Drain(accounts, {life.Read()}));
}

void Add(const LedgerDelta& delta, LedgerDelta* sum) {
  sum->wall_ns += delta.wall_ns;
  sum->on_cpu_ns += delta.on_cpu_ns;
  sum->unattributed_ns += delta.unattributed_ns;
  sum->books_on_cpu_ns += delta.books_on_cpu_ns;
  sum->books_runqueue_ns += delta.books_runqueue_ns;
  sum->voluntary_switches += delta.voluntary_switches;
  sum->involuntary_switches += delta.involuntary_switches;
  for (size_t r = 0; r < kReasonCount; ++r) {
    sum->off_ns[r] += delta.off_ns[r];
    sum->waits[r] += delta.waits[r];
  }
}

// Lets a thread live on for one random step.
void LiveOn(Life& life, std::mt19937_64& random) {
  const auto some = [&](uint64_t bound) { return static_cast<int64_t>(1 + random() % bound); };
  if (life.on_cpu()) {
    life.Pass(some(4'000));
    if (random() % 2) life.Book();
    const uint64_t what = random() % 4;
    if (what == 0) life.Preempt();
    if (what > 1) life.Block(Reason{static_cast<uint8_t>(1 + random() % (kReasonCount - 1))});
  } else if (life.blocked()) {
    life.Pass(some(9'000));
    if (random() % 2) life.Wake();
  } else {
    life.Pass(some(2'000));
    if (random() % 2) life.In();
  }
}

void BlockSoon(Life& life) {
  if (life.blocked()) return;
  if (!life.on_cpu()) life.In();
  life.Pass(10);
  life.Block(Reason::kPoll);
}

TEST(ExactTotalsTest, OpenWaitCountsUpToNow) {
  for (const bool blocked : {true, false}) {
    profd_thread_record record = Blocked();
    if (!blocked) {
      // Preempted at 20,000.
      record.state = kRunning;
      record.ledger.phase = PROFD_PHASE_RUNQUEUE;
      record.ledger.reason = PROFD_REASON_RUNQUEUE;
      record.books.last_queued = 20'000 - kClock;
    }
    const LedgerDelta totals = ExactTotals(record);
    EXPECT_EQ(totals.on_cpu_ns, 9'500);
    EXPECT_EQ(Off(totals, Reason::kRunQueue), blocked ? 500 : 12'500);
    EXPECT_EQ(Off(totals, Reason::kLock), blocked ? 12'000 : 0);
    EXPECT_EQ(Off(totals, Reason::kSleep), 9'000);
    EXPECT_EQ(totals.waits[Index(Reason::kLock)], 1);
    EXPECT_EQ(totals.wall_ns, 31'000);
    EXPECT_EQ(Accounted(totals), totals.wall_ns);
  }
}

TEST(ExactTotalsTest, OpenWaitIsSplitAtTheWakeUp) {
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
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.what);
    profd_thread_record record = Woken();
    c.change(record);
    const LedgerDelta totals = ExactTotals(record);
    EXPECT_EQ(Off(totals, Reason::kRunQueue), 500 + c.queued);
    EXPECT_EQ(Off(totals, Reason::kLock), 12'000 - c.queued);
    EXPECT_EQ(Accounted(totals), totals.wall_ns);
  }
}

TEST(ExactTotalsTest, OpenRunIsTakenFromTheClockOrTheBooks) {
  const LedgerDelta totals = ExactTotals(Running());
  EXPECT_EQ(totals.on_cpu_ns, 9'500 + 3'000);
  EXPECT_EQ(Off(totals, Reason::kRunQueue), 4'500);
  EXPECT_EQ(Off(totals, Reason::kLock), 5'000);
  EXPECT_EQ(Accounted(totals), totals.wall_ns);

  // An arrival before the thread last left is an old one.
  profd_thread_record record = Running();
  record.books.last_arrival = 19'000 - kClock;
  EXPECT_EQ(ExactTotals(record).on_cpu_ns, 9'500 + 2'000);
}

TEST(ExactTotalsTest, AccountOpenedInTheMiddleOfARun) {
  profd_thread_record record = Record(5'000);
  record.on_cpu = 1;
  record.begin_exec = record.ledger.exec_runtime = 700;
  record.ledger.since = 1'000 - kClock;
  record.ledger.phase = PROFD_PHASE_ON_CPU;
  record.books.exec_runtime = 2'000;
  const LedgerDelta totals = ExactTotals(record);
  EXPECT_EQ(totals.on_cpu_ns, 4'000);
  EXPECT_EQ(Accounted(totals), totals.wall_ns);
}

TEST(ExactTotalsTest, ClocksThatDisagreeLeaveTheSumWhole) {
  // More run and queue time in the books than our clock has for both.
  profd_thread_record record = Running();
  record.books.run_delay += 20'000;
  LedgerDelta totals = ExactTotals(record);
  EXPECT_EQ(Off(totals, Reason::kLock), 0);
  EXPECT_EQ(Accounted(totals), totals.wall_ns);

  record = Running();
  record.books.exec_runtime += 20'000;
  totals = ExactTotals(record);
  EXPECT_EQ(totals.on_cpu_ns, 9'500 + 12'000);
  EXPECT_EQ(Accounted(totals), totals.wall_ns);

  // Read while its switch was under way, on a clock that is a little ahead.
  record = Blocked();
  record.now = 20'000 - 5;
  record.clock = record.now - kClock;
  EXPECT_EQ(Off(ExactTotals(record), Reason::kLock), 0);
}

TEST(ExactTotalsTest, UnknownReasonIsOther) {
  for (const int reason : {PROFD_REASON_COUNT + 0, 200}) {
    profd_thread_record record = Blocked();
    record.ledger.reason = static_cast<uint8_t>(reason);
    EXPECT_EQ(Off(ExactTotals(record), Reason::kOther), 12'000);
  }
}

// The books of a thread that has lived for a while: no two numbers are alike.
profd_books SomeBooks() {
  return {.exec_runtime = 5'100,
          .run_delay = 2'200,
          .last_arrival = 0,
          .last_queued = 0,
          .nvcsw = 9,
          .nivcsw = 8,
          .min_flt = 7,
          .maj_flt = 6,
          .read_bytes = 5,
          .write_bytes = 4};
}

TEST(BookTotalsTest, TheBooksAddUp) {
  const LedgerDelta totals = BookTotals(SomeBooks(), 31'300);
  EXPECT_EQ(totals.on_cpu_ns, 5'100);
  EXPECT_EQ(totals.books_on_cpu_ns, 5'100);
  EXPECT_EQ(totals.books_runqueue_ns, 2'200);
  EXPECT_EQ(Off(totals, Reason::kRunQueue), 2'200);
  EXPECT_EQ(totals.unattributed_ns, 24'000);
  EXPECT_EQ(Accounted(totals), totals.wall_ns);
  EXPECT_EQ(totals.voluntary_switches, 9);
  EXPECT_EQ(totals.involuntary_switches, 8);
  EXPECT_EQ(totals.minor_faults, 7);
  EXPECT_EQ(totals.major_faults, 6);
  EXPECT_EQ(totals.read_bytes, 5);
  EXPECT_EQ(totals.write_bytes, 4);
}

// Books that a thread had already are not of the account.
TEST(AccountsTest, BooksCountFromWhereTheAccountWasOpened) {
  for (const bool born : {false, true}) {
    profd_thread_record record = Blocked();
    record.armed_at = 0;
    record.born = born ? 1 : 0;
    record.begin_exec = 100;
    record.begin_delay = 200;
    record.books = SomeBooks();
    Accounts accounts;
    const auto read = [&] {
      ProfileDelta delta;
      accounts.BeginReading();
      accounts.Apply(record);
      accounts.EndReading({}, true);
      accounts.Finish(delta);
      return delta.ledgers.at(0).delta;
    };
    LedgerDelta step = read();
    EXPECT_EQ(step.books_on_cpu_ns, born ? 5'100 : 5'000);
    EXPECT_EQ(step.books_runqueue_ns, born ? 2'200 : 2'000);
    EXPECT_EQ(step.voluntary_switches, born ? 9 : 0);
    EXPECT_EQ(step.write_bytes, born ? 4 : 0);
    EXPECT_EQ(Accounted(step), step.wall_ns);
    record.now += 1'000;
    record.books.exec_runtime += 300;
    record.books.nvcsw += 2;
    step = read();
    EXPECT_EQ(step.wall_ns, 1'000);
    EXPECT_EQ(step.books_on_cpu_ns, 300);
    EXPECT_EQ(step.voluntary_switches, 2);
    EXPECT_EQ(Accounted(step), step.wall_ns);
  }
}

TEST(AccountsTest, WithoutTheSwitchLayerTheBooksCount) {
  profd_thread_record record = Blocked();
  record.armed_at = 0;
  Accounts accounts;
  const LedgerDelta delta = Drain(accounts, {record}).ledgers.at(0).delta;
  EXPECT_EQ(delta.on_cpu_ns, 9'500);
  EXPECT_EQ(Off(delta, Reason::kRunQueue), 500);
  EXPECT_EQ(delta.unattributed_ns, 21'000);
  EXPECT_EQ(Waits(delta), 0);
  EXPECT_EQ(Accounted(delta), delta.wall_ns);
}

TEST(AccountsTest, WithoutTheBooksTheSwitchLayerAddsUp) {
  profd_thread_record record = Woken();
  record.books.nvcsw = 3;
  Accounts accounts(false);
  const LedgerDelta delta = Drain(accounts, {record}).ledgers.at(0).delta;
  EXPECT_EQ(Accounted(delta), delta.wall_ns);
  EXPECT_EQ(delta.on_cpu_ns, 9'500);
  EXPECT_EQ(Off(delta, Reason::kLock), 5'000);
  EXPECT_EQ(delta.books_on_cpu_ns, 0);
  EXPECT_EQ(delta.voluntary_switches, 0);
  EXPECT_EQ(accounts.switches_unseen(), 0U);
  ASSERT_THAT(accounts.activity(), SizeIs(1));
  EXPECT_EQ(accounts.activity()[0].switches, 2) << "those that the ledger saw";

  Accounts neither(false);
  record.armed_at = 0;
  EXPECT_EQ(Drain(neither, {record}).ledgers.at(0).delta.wall_ns, 31'000);
}

TEST(AccountsTest, BooksCountFromBirthOrFromTheMark) {
  for (const bool born : {true, false}) {
    profd_thread_record record = Blocked();
    record.born = born;
    record.books = {.exec_runtime = 900,
                    .run_delay = 800,
                    .last_arrival = 0,
                    .last_queued = 0,
                    .nvcsw = 7,
                    .nivcsw = 6,
                    .min_flt = 5,
                    .maj_flt = 4,
                    .read_bytes = 3,
                    .write_bytes = 2};
    record.begin_exec = born ? 0 : 900;
    record.begin_delay = born ? 0 : 800;
    Accounts accounts;
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

// With both clocks known every delta is the truth, wherever in its cycle the thread is read.
TEST(AccountsTest, EveryDeltaIsTrueWhileTheLedgerGoesOn) {
  for (const bool born : {true, false}) {
    std::mt19937_64 random(1);
    Accounts accounts;
    Life life(50'000, born);
    Life::Truth before;
    for (int i = 0; i < 3'000; ++i) {
      for (uint64_t n = random() % 5; n > 0; --n) LiveOn(life, random);
      const LedgerDelta delta = DrainOne(accounts, life);
      ASSERT_EQ(delta.on_cpu_ns, life.truth().on_cpu - before.on_cpu) << i;
      for (size_t r = 0; r < kReasonCount; ++r) {
        ASSERT_EQ(delta.off_ns[r], life.truth().off[r] - before.off[r]) << i << " " << r;
      }
      ASSERT_EQ(delta.unattributed_ns, 0);
      ASSERT_EQ(Waits(delta), Switches(delta));
      before = life.truth();
    }
    EXPECT_EQ(accounts.switches_unseen(), 0U);
  }
}

TEST(AccountsTest, DeltasTelescope) {
  std::mt19937_64 random(2);
  Accounts accounts;
  Life life(50'000);
  LedgerDelta sum;
  for (int i = 0; i < 3'000; ++i) {
    for (uint64_t n = random() % 5; n > 0; --n) LiveOn(life, random);
    Add(DrainOne(accounts, life), &sum);
  }
  BlockSoon(life);
  Add(DrainOne(accounts, life), &sum);
  EXPECT_EQ(sum.on_cpu_ns, life.truth().on_cpu);
  EXPECT_EQ(sum.on_cpu_ns, sum.books_on_cpu_ns);
  EXPECT_EQ(Off(sum, Reason::kRunQueue), sum.books_runqueue_ns);
  for (size_t r = 0; r < kReasonCount; ++r) EXPECT_EQ(sum.off_ns[r], life.truth().off[r]) << r;
  EXPECT_EQ(sum.unattributed_ns, 0);
}

TEST(AccountsTest, TimeTakenFromTheCpuIsRunQueueTime) {
  Accounts accounts;
  Life life(50'000);
  life.Pass(100);
  life.In();
  life.Pass(1'000);
  life.Stolen(300);
  life.Pass(500);
  life.Block(Reason::kNet);
  life.Pass(2'000);
  const LedgerDelta delta = DrainOne(accounts, life);
  EXPECT_EQ(delta.on_cpu_ns, 1'500);
  EXPECT_EQ(Off(delta, Reason::kRunQueue), 400);
  EXPECT_EQ(Off(delta, Reason::kNet), 2'000);
}

// Reads a thread over and over while the layer is shed and restored. `arm_only_blocked` keeps to
// moments at which the books are complete.
void ShedAndRestore(uint64_t seed, bool arm_only_blocked) {
  std::mt19937_64 random(seed);
  Accounts accounts;
  Life life(50'000);
  LedgerDelta sum;
  Life::Truth before;
  int64_t blocked_without_ledger = 0, unbooked_at_arming = 0;
  bool was_armed = true;
  int sheds = 0;
  const auto blocked_of = [](const Life::Truth& truth) {
    return std::accumulate(truth.off.begin() + 1, truth.off.end(), int64_t{0});
  };
  const auto drain = [&] {
    // The drain arms what it finds of an older epoch, then reads.
    const bool went_on = was_armed && life.armed();
    const LedgerDelta delta = DrainOne(accounts, life);
    Add(delta, &sum);
    if (went_on) {
      ASSERT_EQ(delta.unattributed_ns, 0);
      ASSERT_EQ(Waits(delta), Switches(delta));
    } else {
      ASSERT_EQ(Waits(delta), 0);
      for (size_t r = 1; r < kReasonCount; ++r) ASSERT_EQ(delta.off_ns[r], 0);
      blocked_without_ledger += blocked_of(life.truth()) - blocked_of(before);
    }
    before = life.truth();
    was_armed = life.armed();
  };
  for (int i = 0; i < 8'000; ++i) {
    for (uint64_t n = random() % 6; n > 0; --n) LiveOn(life, random);
    drain();
    if (life.armed() && random() % 5 == 0) {
      life.Shed();
      ++sheds;
    } else if (!life.armed() && random() % 5 == 0 && (!arm_only_blocked || life.blocked())) {
      for (uint64_t n = arm_only_blocked ? 0 : random() % 3; n > 0; --n) LiveOn(life, random);
      unbooked_at_arming += life.Unbooked();
      life.Arm();
      drain();
    }
  }
  BlockSoon(life);
  drain();
  ASSERT_GT(sheds, 200);
  EXPECT_EQ(sum.on_cpu_ns, life.truth().on_cpu);
  EXPECT_EQ(sum.on_cpu_ns, sum.books_on_cpu_ns);
  EXPECT_EQ(sum.books_runqueue_ns, life.truth().off[Index(Reason::kRunQueue)]);
  EXPECT_EQ(accounts.switches_unseen(), 0U);
  const int64_t queued = life.truth().off[Index(Reason::kRunQueue)];
  if (arm_only_blocked) {
    EXPECT_EQ(Off(sum, Reason::kRunQueue), queued);
    EXPECT_EQ(sum.unattributed_ns, blocked_without_ledger);
  } else {
    // What the books did not have yet when the ledger was armed stays unattributed, unless the
    // layer is shed again before the thread leaves its CPU.
    EXPECT_LE(Off(sum, Reason::kRunQueue), queued);
    EXPECT_GE(Off(sum, Reason::kRunQueue), queued - unbooked_at_arming);
    EXPECT_EQ(Off(sum, Reason::kRunQueue) + sum.unattributed_ns, queued + blocked_without_ledger);
  }
}

TEST(AccountsTest, NoTimeIsCountedTwiceAcrossShedAndRestore) { ShedAndRestore(3, true); }

TEST(AccountsTest, ArmedInTheMiddleOfARunOrOfTheQueue) { ShedAndRestore(4, false); }

TEST(AccountsTest, WaitAndRunAtTheShedAreNotToldAgainByTheBooks) {
  Accounts accounts;
  Life life(50'000);
  life.In();
  life.Pass(100);
  life.Block(Reason::kLock);
  life.Pass(1'000);
  life.Wake();
  life.Pass(5'000);
  LedgerDelta delta = DrainOne(accounts, life);
  EXPECT_EQ(Off(delta, Reason::kRunQueue), 5'000);
  EXPECT_EQ(Off(delta, Reason::kLock), 1'000);

  // Queued for 5,000 at the last drain; the books tell of all 6,000 at once.
  life.Shed();
  life.Pass(1'000);
  life.In();
  life.Pass(3'000);
  life.Book();
  delta = DrainOne(accounts, life);
  EXPECT_EQ(Off(delta, Reason::kRunQueue), 1'000);
  EXPECT_EQ(delta.on_cpu_ns, 3'000);
  EXPECT_EQ(delta.unattributed_ns, 0);
  EXPECT_EQ(delta.books_runqueue_ns, 6'000);
}

TEST(AccountsTest, RunAtTheShedIsNotToldAgainByTheBooks) {
  Accounts accounts;
  Life life(50'000);
  life.In();
  life.Pass(100);
  life.Block(Reason::kLock);
  life.Wake();
  life.In();
  life.Pass(4'000);
  EXPECT_EQ(DrainOne(accounts, life).on_cpu_ns, 4'100);
  life.Shed();
  life.Pass(200);
  life.Block(Reason::kLock);
  life.Pass(800);
  const LedgerDelta delta = DrainOne(accounts, life);
  EXPECT_EQ(delta.on_cpu_ns, 200);
  EXPECT_EQ(delta.unattributed_ns, 800);
}

// Armed by a drain, it is by the books up to there and by the ledger from there on.
TEST(AccountsTest, StepInWhichTheLayerCameBackIsByTheBooks) {
  Accounts accounts;
  Life life(50'000);
  life.In();
  life.Pass(100);
  life.Block(Reason::kLock);
  life.Shed();
  life.Pass(900);
  LedgerDelta delta = DrainOne(accounts, life);
  EXPECT_EQ(delta.unattributed_ns, 900);
  life.Pass(300);
  life.Arm();
  life.Pass(5);
  delta = DrainOne(accounts, life);
  EXPECT_EQ(delta.unattributed_ns, 305);
  EXPECT_EQ(Off(delta, Reason::kLock), 0);
  life.Pass(700);
  delta = DrainOne(accounts, life);
  EXPECT_EQ(delta.unattributed_ns, 0);
  EXPECT_EQ(Off(delta, Reason::kLock), 700);
}

TEST(AccountsTest, ThreadBornWhileTheLayerIsOff) {
  Accounts accounts;
  Life life(50'000);
  life.Shed();
  life.Pass(200);
  life.In();
  life.Pass(1'000);
  life.Block(Reason::kDisk);
  life.Pass(3'000);
  LedgerDelta delta = DrainOne(accounts, life);
  EXPECT_EQ(delta.on_cpu_ns, 1'000);
  EXPECT_EQ(Off(delta, Reason::kRunQueue), 200);
  EXPECT_EQ(delta.unattributed_ns, 3'000);
  EXPECT_EQ(delta.voluntary_switches, 1);
  EXPECT_EQ(Waits(delta), 0);

  life.Arm();
  EXPECT_EQ(DrainOne(accounts, life).wall_ns, 0);
  life.Pass(400);
  life.Wake();
  life.Pass(50);
  life.In();
  life.Pass(60);
  delta = DrainOne(accounts, life);
  EXPECT_EQ(Off(delta, Reason::kDisk), 400);
  EXPECT_EQ(Off(delta, Reason::kRunQueue), 50);
  EXPECT_EQ(delta.on_cpu_ns, 60);
  EXPECT_EQ(accounts.switches_unseen(), 0U);
}

TEST(AccountsTest, ThreadOpenedWhileOnItsCpu) {
  Accounts accounts;
  Life life(50'000, false);
  life.In();
  life.Pass(700);
  life.Book();
  life.Open();
  EXPECT_EQ(DrainOne(accounts, life).wall_ns, 0);
  life.Pass(1'000);
  LedgerDelta delta = DrainOne(accounts, life);
  EXPECT_EQ(delta.on_cpu_ns, 1'000);
  EXPECT_EQ(delta.wall_ns, 1'000);
  life.Pass(500);
  life.Block(Reason::kSignal);
  life.Pass(2'000);
  delta = DrainOne(accounts, life);
  EXPECT_EQ(delta.on_cpu_ns, 500);
  EXPECT_EQ(Off(delta, Reason::kSignal), 2'000);
  EXPECT_EQ(Off(delta, Reason::kRunQueue), 0);
  EXPECT_EQ(delta.books_on_cpu_ns, 1'500);
}

TEST(AccountsTest, SwitchesThatWereNotReportedAreCounted) {
  Accounts accounts;
  Life life(50'000);
  for (int i = 0; i < 10; ++i) {
    life.Pass(10);
    life.In();
    life.Pass(10);
    if (i == 4 || i == 5) life.MissNext();
    life.Preempt();
    DrainOne(accounts, life);
  }
  EXPECT_EQ(accounts.switches_unseen(), 2U);
  for (int i = 0; i < 5; ++i) DrainOne(accounts, life);
  EXPECT_EQ(accounts.switches_unseen(), 2U) << "once each";
}

TEST(AccountsTest, SwitchThatIsUnderWayIsNotUnseen) {
  Accounts accounts;
  profd_thread_record record = Blocked();
  record.books.nvcsw = 2;
  record.born = 1;
  Drain(accounts, {record});
  for (int i = 0; i < 5; ++i) {
    // The kernel counts, then reports.
    ++record.books.nvcsw;
    Drain(accounts, {record});
    ++record.ledger.reasons[PROFD_REASON_LOCK].count;
    Drain(accounts, {record});
  }
  EXPECT_EQ(accounts.switches_unseen(), 0U);
}

TEST(AccountsTest, SwitchesWhileTheLayerIsOffAreNotUnseen) {
  Accounts accounts;
  Life life(50'000);
  const auto cycle = [&] {
    if (!life.on_cpu()) life.In();
    life.Pass(10);
    life.Block(Reason::kPipe);
    life.Pass(10);
    life.Wake();
  };
  cycle();
  DrainOne(accounts, life);
  // Read in the middle of a switch, the last of which the layer would have told.
  life.In();
  life.MissNext();
  life.Block(Reason::kPipe);
  DrainOne(accounts, life);
  life.Wake();
  life.Shed();
  for (int i = 0; i < 3; ++i) {
    cycle();
    EXPECT_EQ(Switches(DrainOne(accounts, life)), 1);
  }
  life.Arm();
  for (int i = 0; i < 3; ++i) {
    DrainOne(accounts, life);
    cycle();
  }
  EXPECT_EQ(accounts.switches_unseen(), 0U);
}

TEST(AccountsTest, LastRecordOfADrainCounts) {
  Accounts accounts;
  profd_thread_record earlier = Blocked();
  earlier.now = 25'000;
  const ProfileDelta delta = Drain(accounts, {earlier, Blocked()});
  ASSERT_THAT(delta.ledgers, SizeIs(1));
  EXPECT_EQ(delta.ledgers[0].delta.wall_ns, 31'000);
  EXPECT_EQ(Off(delta.ledgers[0].delta, Reason::kLock), 12'000);
  EXPECT_THAT(Drain(accounts, {}).ledgers, IsEmpty());
}

// An exit that was told while the threads were being read arrives after a newer reading.
TEST(AccountsTest, RecordsOutOfOrderTelescope) {
  Accounts accounts;
  Drain(accounts, {Blocked()});
  profd_thread_record exiting = Blocked();
  exiting.type = PROFD_RECORD_EXITING;
  exiting.now = 31'000;
  exiting.clock = 31'000 - kClock;
  profd_thread_record dead = Blocked();
  dead.type = PROFD_RECORD_DEAD;
  dead.now = 33'000;
  dead.clock = 33'000 - kClock;
  const LedgerDelta delta = OnlyOne(Drain(accounts, {exiting, dead}));
  EXPECT_EQ(delta.wall_ns, 1'000);
  EXPECT_EQ(Off(delta, Reason::kLock), 1'000);
}

TEST(AccountsTest, AnExitThatIsToldLateTakesNothingBack) {
  Accounts accounts;
  profd_thread_record read = Blocked();
  read.armed_at = 0;
  profd_thread_record exiting = read;
  exiting.type = PROFD_RECORD_EXITING;
  exiting.now -= 1'000;
  exiting.clock -= 1'000;
  const ProfileDelta delta = Drain(accounts, {read, exiting});
  EXPECT_EQ(OnlyOne(delta).wall_ns, static_cast<int64_t>(read.now - read.begin));
  // Nothing more is to come of it.
  for (int i = 0; i < 3; ++i) EXPECT_THAT(Drain(accounts, {}).ledgers, IsEmpty());
  EXPECT_EQ(accounts.vanished(), 0U);
}

TEST(AccountsTest, DeadRecordIsFinal) {
  Accounts accounts;
  Drain(accounts, {Blocked()});
  profd_thread_record dead = Record(40'000, PROFD_RECORD_DEAD);
  dead.state = kDeadState;
  dead.ledger.since = 40'000 - kClock;
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
  Accounts accounts;
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

// Queries may ask for many drains while a thread that exits waits for a CPU.
TEST(AccountsTest, DrainsInARowDoNotMakeAThreadVanish) {
  Accounts accounts;
  Drain(accounts, {Blocked()});
  const auto drain = [&](int64_t now_ms) {
    accounts.BeginReading();
    accounts.EndReading({.threads = 0, .now_ns = now_ms * 1'000'000, .clock_ns = 0}, true);
    Finish(accounts);
  };
  for (int64_t ms = 1'000; ms < 1'400; ms += 20) drain(ms);
  EXPECT_EQ(accounts.vanished(), 0U);
  drain(1'600);
  EXPECT_EQ(accounts.vanished(), 1U);
  for (int64_t ms = 1'620; ms < 3'000; ms += 20) drain(ms);
  EXPECT_EQ(accounts.vanished(), 1U);
}

// A storm whose last accounts found no room leaves nothing behind.
TEST(AccountsTest, ManyThatVanishedAreSoonForgotten) {
  Accounts accounts;
  std::vector<profd_thread_record> storm;
  for (uint64_t id = 100; id < 3'100; ++id) {
    storm.push_back(Blocked());
    storm.back().thread_id = id;
  }
  Drain(accounts, storm);
  for (int i = 0; i < 12; ++i) Drain(accounts, {Blocked()});
  EXPECT_EQ(accounts.known_threads(), 3'001U) << "a last account may still come";
  for (int i = 0; i < 8; ++i) {
    accounts.BeginReading();
    Drain(accounts, {Blocked()});
  }
  EXPECT_EQ(accounts.known_threads(), 1U);
  EXPECT_EQ(accounts.vanished(), 3'000U);
  EXPECT_EQ(accounts.live_threads(), 1U);
}

TEST(AccountsTest, ThreadThatIsMissedOnceIsStillThere) {
  Accounts accounts;
  for (int i = 0; i < 4; ++i) {
    Drain(accounts, {Blocked()});
    Drain(accounts, {});
  }
  EXPECT_EQ(accounts.vanished(), 0U);
  EXPECT_EQ(accounts.live_threads(), 1U);
}

TEST(AccountsTest, StartOfTheExitIsTheLastAccountWithoutTheSwitchLayer) {
  for (const bool armed : {false, true}) {
    Accounts accounts;
    profd_thread_record exiting = Blocked();
    exiting.type = PROFD_RECORD_EXITING;
    if (!armed) exiting.armed_at = 0;
    Drain(accounts, {exiting});
    Drain(accounts, {});
    const ProfileDelta delta = Drain(accounts, {});
    EXPECT_EQ(accounts.vanished(), armed ? 1U : 0U);
    ASSERT_THAT(delta.threads, SizeIs(1));
    EXPECT_TRUE(delta.threads[0].exited);
  }
}

// Threads whose last records say that they rest.
profd_thread_record Resting(uint64_t thread_id = 7) {
  profd_thread_record record = Blocked();
  record.thread_id = thread_id;
  record.at_rest = 1;
  return record;
}

LeftOut Out(uint64_t threads, int64_t now) {
  return {.threads = threads, .now_ns = now, .clock_ns = now - kClock};
}

bool Read(Accounts& accounts, const std::vector<profd_thread_record>& records,
          const LeftOut& left_out, bool all = false) {
  accounts.BeginReading();
  for (const profd_thread_record& record : records) accounts.Apply(record);
  return accounts.EndReading(left_out, all);
}

TEST(AccountsTest, WhoIsLeftOutWaitsOn) {
  Accounts accounts;
  EXPECT_TRUE(Read(accounts, {Resting(7), Resting(8)}, Out(0, 31'500), true));
  ProfileDelta delta = Finish(accounts);
  EXPECT_THAT(delta.ledgers, SizeIs(2));
  EXPECT_THAT(delta.resting, IsEmpty());

  // Not in one go: what rested is as much as if it had been read.
  for (const int64_t now : {40'000, 55'000}) {
    EXPECT_TRUE(Read(accounts, {}, Out(2, now)));
    delta = Finish(accounts);
    EXPECT_THAT(delta.ledgers, IsEmpty());
    ASSERT_THAT(delta.resting, SizeIs(2));
    for (const RestingThread& rest : delta.resting) {
      EXPECT_EQ(rest.wall_ns, now == 40'000 ? 8'000 : 15'000);
      EXPECT_EQ(rest.reason, Reason::kLock);
    }
    EXPECT_EQ(accounts.live_threads(), 2U);
    ASSERT_THAT(accounts.activity(), SizeIs(1));
    EXPECT_EQ(accounts.activity()[0].threads, 2);
    EXPECT_EQ(accounts.activity()[0].switches, 0);
  }

  // One is read again, in the same wait: only what came since is told, and that it rested.
  profd_thread_record awake = Blocked();
  awake.now = 60'000;
  awake.clock = 60'000 - kClock;
  EXPECT_TRUE(Read(accounts, {awake}, Out(1, 59'000)));
  delta = Finish(accounts);
  EXPECT_THAT(delta.ledgers, IsEmpty());
  ASSERT_THAT(delta.resting, SizeIs(2));
  EXPECT_EQ(delta.resting[0].thread, ThreadId{7});
  EXPECT_EQ(delta.resting[0].wall_ns, 5'000);
  EXPECT_EQ(delta.resting[0].reason, Reason::kLock);
  EXPECT_EQ(delta.resting[1].thread, ThreadId{8});
  EXPECT_EQ(delta.resting[1].wall_ns, 4'000);
  EXPECT_EQ(accounts.rests_read(), 1);
  EXPECT_EQ(accounts.vanished(), 0U);
}

TEST(AccountsTest, WithoutALedgerItIsNotKnownForWhatTheyRest) {
  for (const bool books : {true, false}) {
    Accounts accounts(books);
    profd_thread_record record = Resting();
    record.armed_at = 0;
    EXPECT_TRUE(Read(accounts, {record}, Out(0, 31'500), true));
    Finish(accounts);
    EXPECT_TRUE(Read(accounts, {}, Out(1, 42'000)));
    ProfileDelta delta = Finish(accounts);
    if (books) {
      ASSERT_THAT(delta.resting, SizeIs(1));
      EXPECT_EQ(delta.resting[0].wall_ns, 10'000);
      EXPECT_EQ(delta.resting[0].reason, std::nullopt);
    } else {
      // Nothing but the wall clock, as of a thread that runs.
      ASSERT_THAT(delta.ledgers, SizeIs(1));
      EXPECT_EQ(delta.ledgers[0].delta.wall_ns, 10'000);
      EXPECT_EQ(delta.ledgers[0].delta.unattributed_ns, 0);
    }
    record.now = 45'000;
    record.clock = 45'000 - kClock;
    delta = Drain(accounts, {record});
    ASSERT_THAT(delta.ledgers, SizeIs(books ? 0 : 1));
    ASSERT_THAT(delta.resting, SizeIs(books ? 1 : 0));
    EXPECT_EQ(books ? delta.resting[0].wall_ns : delta.ledgers[0].delta.wall_ns, 3'000);
  }
}

TEST(AccountsTest, ReadTwiceInADrainAThreadHasBoth) {
  Accounts accounts;
  EXPECT_TRUE(Read(accounts, {Resting()}, Out(0, 31'500), true));
  EXPECT_TRUE(Read(accounts, {}, Out(1, 36'000)));
  const ProfileDelta delta = Finish(accounts);
  ASSERT_THAT(delta.ledgers, SizeIs(1));
  EXPECT_EQ(delta.ledgers[0].delta.wall_ns, 31'000);
  ASSERT_THAT(delta.resting, SizeIs(1));
  EXPECT_EQ(delta.resting[0].wall_ns, 4'000);
}

// A drain of thousands that rest must not hold a whole ledger of each.
TEST(AccountsTest, WhatIsReadAtRestIsNoLedger) {
  Accounts accounts;
  const auto at = [](int64_t now, uint64_t thread) {
    profd_thread_record record = Resting(thread);
    record.now = static_cast<uint64_t>(now);
    record.clock = static_cast<uint64_t>(now - kClock);
    return record;
  };
  // Who was read before the first slice began did nothing in it.
  EXPECT_TRUE(Read(accounts, {at(32'000, 7), at(32'000, 8)}, Out(0, 32'000), true));
  accounts.ForgetPast();
  EXPECT_TRUE(Read(accounts, {}, Out(2, 33'000)));
  ProfileDelta delta = Finish(accounts);
  EXPECT_THAT(delta.ledgers, IsEmpty());
  ASSERT_THAT(delta.resting, SizeIs(2));
  for (const RestingThread& rest : delta.resting) EXPECT_EQ(rest.wall_ns, 1'000);
  EXPECT_EQ(accounts.rests_read(), 0);
  EXPECT_EQ(accounts.live_threads(), 2U);

  // All are read, and one twice: the rests of a wait add up.
  EXPECT_TRUE(Read(accounts, {at(40'000, 7), at(41'000, 8)}, Out(0, 41'000), true));
  EXPECT_TRUE(Read(accounts, {at(43'000, 7)}, Out(1, 43'500)));
  delta = Finish(accounts);
  EXPECT_THAT(delta.ledgers, IsEmpty());
  ASSERT_THAT(delta.resting, SizeIs(2));
  for (const RestingThread& rest : delta.resting) {
    EXPECT_EQ(rest.wall_ns, rest.thread == ThreadId{7} ? 10'000 : 10'500);
    EXPECT_EQ(rest.reason, Reason::kLock);
  }
  EXPECT_EQ(accounts.rests_read(), 2);

  // The ledger goes off: two kinds of waiting in one drain, the second in its ledger.
  EXPECT_TRUE(Read(accounts, {at(50'000, 7)}, Out(1, 50'000)));
  profd_thread_record off = at(54'000, 7);
  off.armed_at = 0;
  EXPECT_TRUE(Read(accounts, {off}, Out(1, 54'000)));
  delta = Finish(accounts);
  ASSERT_THAT(delta.ledgers, SizeIs(1));
  EXPECT_EQ(delta.ledgers[0].thread, ThreadId{7});
  EXPECT_EQ(delta.ledgers[0].delta.unattributed_ns, delta.ledgers[0].delta.wall_ns);
  ASSERT_THAT(delta.resting, SizeIs(2));
  for (const RestingThread& rest : delta.resting) {
    if (rest.thread != ThreadId{7}) continue;
    EXPECT_EQ(rest.reason, Reason::kLock);
    EXPECT_EQ(rest.wall_ns + delta.ledgers[0].delta.wall_ns, 11'000);
  }
}

// One of two that rested is gone, and nothing told of it: only reading all tells which one.
TEST(AccountsTest, WhoVanishesAtRestIsMissed) {
  Accounts accounts;
  EXPECT_TRUE(Read(accounts, {Resting(7), Resting(8)}, Out(0, 31'500), true));
  Finish(accounts);
  EXPECT_FALSE(Read(accounts, {}, Out(1, 40'000)));
  profd_thread_record other = Resting(8);
  other.now = 41'000;
  other.clock = 41'000 - kClock;
  EXPECT_TRUE(Read(accounts, {other}, Out(0, 40'500), true));
  EXPECT_TRUE(Read(accounts, {}, Out(1, 41'000))) << "also within the same drain";
  ProfileDelta delta = Finish(accounts);
  EXPECT_THAT(delta.ledgers, IsEmpty());
  ASSERT_THAT(delta.resting, SizeIs(1)) << "of one who was read and then left out";
  EXPECT_EQ(delta.resting[0].thread, ThreadId{8});
  EXPECT_EQ(delta.resting[0].wall_ns, 9'000);

  // From here on nobody waits for it.
  for (const int64_t now : {1'000'000'000, 2'000'000'000}) {
    EXPECT_EQ(accounts.vanished(), 0U);
    EXPECT_TRUE(Read(accounts, {}, Out(1, now)));
    delta = Finish(accounts);
    ASSERT_THAT(delta.resting, SizeIs(1));
    EXPECT_EQ(delta.resting[0].thread, ThreadId{8});
  }
  EXPECT_EQ(accounts.vanished(), 1U);
  EXPECT_EQ(accounts.live_threads(), 1U);
}

// As it began to exit, and then sleeps: told by the ring after it was read.
TEST(AccountsTest, WhatIsToldLateWakesNobody) {
  Accounts accounts;
  EXPECT_TRUE(Read(accounts, {Resting()}, Out(0, 32'000), true));
  profd_thread_record exiting = Blocked();
  exiting.type = PROFD_RECORD_EXITING;
  exiting.now = 31'000;
  exiting.clock = 31'000 - kClock;
  accounts.Apply(exiting);
  const int64_t wall = Finish(accounts).ledgers.at(0).delta.wall_ns;
  EXPECT_TRUE(Read(accounts, {}, Out(1, 40'000)));
  ProfileDelta delta = Finish(accounts);
  ASSERT_THAT(delta.resting, SizeIs(1));
  EXPECT_EQ(wall + delta.resting[0].wall_ns, 39'000) << "from 1,000 on, nothing missing";

  // It woke and ended while others were being read: older than what was made of its rest.
  profd_thread_record dead = Record(39'000, PROFD_RECORD_DEAD);
  dead.state = kDeadState;
  dead.ledger = Blocked().ledger;
  dead.ledger.reasons[PROFD_REASON_LOCK].ns = 18'900;
  dead.ledger.since = 39'000 - kClock;
  accounts.Apply(dead);
  EXPECT_TRUE(Read(accounts, {}, Out(0, 50'000))) << "nobody waits for it";
  delta = Finish(accounts);
  ASSERT_THAT(delta.ledgers, SizeIs(1));
  EXPECT_EQ(delta.ledgers[0].delta.wall_ns, -1'000) << "what was too much is taken back";
  EXPECT_EQ(accounts.live_threads(), 0U);
}

TEST(AccountsTest, ProcessThatRenamesItselfRenamesWhoRests) {
  Accounts accounts;
  profd_thread_record leader = Resting(6);
  leader.tid = leader.pid;
  EXPECT_TRUE(Read(accounts, {leader, Resting(7)}, Out(0, 32'000), true));
  EXPECT_EQ(accounts.live_threads(), 2U) << "also before the first drain ends";
  EXPECT_THAT(Finish(accounts).threads, SizeIs(2));
  std::strcpy(leader.process, "renamed");
  std::strcpy(leader.comm, "renamed");
  leader.now = 40'000;
  leader.clock = 40'000 - kClock;
  EXPECT_TRUE(Read(accounts, {leader}, Out(1, 41'000)));
  const ProfileDelta delta = Finish(accounts);
  ASSERT_THAT(delta.threads, SizeIs(2));
  for (const ThreadInfo& info : delta.threads) EXPECT_EQ(info.process, "renamed");
  EXPECT_EQ(delta.threads[1].name, "worker");
}

// Its end is told by the ring, between two readings.
TEST(AccountsTest, WhoEndsAfterARestIsNotMissed) {
  Accounts accounts;
  EXPECT_TRUE(Read(accounts, {Resting(7), Resting(8)}, Out(0, 31'500), true));
  Finish(accounts);
  EXPECT_TRUE(Read(accounts, {}, Out(2, 35'000)));
  Finish(accounts);
  profd_thread_record dead = Record(40'000, PROFD_RECORD_DEAD);
  dead.state = kDeadState;
  dead.ledger = Blocked().ledger;
  dead.ledger.reasons[PROFD_REASON_LOCK].ns = 19'000;
  dead.ledger.since = 40'000 - kClock;
  accounts.Apply(dead);
  EXPECT_TRUE(Read(accounts, {}, Out(1, 41'000)));
  const ProfileDelta delta = Finish(accounts);
  ASSERT_THAT(delta.ledgers, SizeIs(1));
  EXPECT_EQ(delta.ledgers[0].delta.wall_ns, 5'000);
  EXPECT_EQ(Off(delta.ledgers[0].delta, Reason::kLock), 4'000) << "19 us, of which 15 were told";
  EXPECT_THAT(delta.resting, SizeIs(1));
  EXPECT_EQ(accounts.vanished(), 0U);
}

TEST(AccountsTest, NamesAreToldWhenTheyChange) {
  Accounts accounts;
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
  Accounts accounts;
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
  EXPECT_EQ(accounts.TargetOf(ThreadId{8}), 1U);
  EXPECT_EQ(accounts.TargetOf(ThreadId{9}), 2U);
  EXPECT_EQ(accounts.TargetOf(ThreadId{10}), 0U);
  EXPECT_EQ(accounts.ProcessOf(ThreadId{8}), 100);
  EXPECT_EQ(accounts.ProcessOf(ThreadId{9}), 200);
  EXPECT_EQ(accounts.ProcessOf(ThreadId{10}), 0);
}

TEST(AccountsTest, ActivityIsOfTheLastDrainByTarget) {
  Accounts accounts;
  std::vector<profd_thread_record> records(3, Blocked());
  records[1].thread_id = 8;
  records[2].thread_id = 9;
  records[2].target_id = 2;
  Drain(accounts, records);
  records[0].books.nvcsw += 3;
  records[1].books.nivcsw += 4;
  records[1].type = PROFD_RECORD_DEAD;
  records[2].books.nvcsw += 5;
  Drain(accounts, records);
  const std::vector<TargetActivity>& activity = accounts.activity();
  ASSERT_THAT(activity, SizeIs(2));
  EXPECT_EQ(activity[0].target, 1U);
  EXPECT_EQ(activity[0].switches, 7);
  EXPECT_EQ(activity[0].threads, 2);
  EXPECT_EQ(activity[1].target, 2U);
  EXPECT_EQ(activity[1].switches, 5);
  EXPECT_EQ(activity[1].threads, 1);
  EXPECT_EQ(accounts.TargetOf(ThreadId{8}), 1U) << "other sources still ask for it in this drain";
  accounts.BeginReading();
  EXPECT_EQ(accounts.TargetOf(ThreadId{8}), 0U) << "gone";
  Drain(accounts, {});
  EXPECT_THAT(accounts.activity(), IsEmpty());
}

}  // namespace
}  // namespace profd
