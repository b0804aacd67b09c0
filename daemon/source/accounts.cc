#include "daemon/source/accounts.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "daemon/source/record.h"
#include "daemon/source/thread_totals.h"

namespace profd {
namespace {

constexpr uint32_t kTaskDead = 0x80;
constexpr int kVanishedAfterDrains = 2;
// Drains that follow sooner count as one: a thread that exits may wait for a CPU before its last
// account, and no drain finds it meanwhile.
constexpr int64_t kDrainNs = 500'000'000;
// Kept for this long, so that a last account that comes late is not taken for a whole new life.
constexpr int kForgottenAfterDrains = 4096;
// Beyond so many of them, as in a storm of which accounts were lost, for this long.
constexpr size_t kMostVanished = 1024;
constexpr int kForgottenInACrowd = 16;

constexpr size_t kRunQueueIndex = static_cast<size_t>(Reason::kRunQueue);

// By the books where they are kept, else as many as the ledger saw.
int64_t SwitchesOf(const LedgerDelta& delta, bool books) {
  if (books) return delta.voluntary_switches + delta.involuntary_switches;
  return std::accumulate(delta.waits.begin(), delta.waits.end(), int64_t{0});
}

}  // namespace

void Accounts::Identify(Thread& thread, const profd_thread_record& record) {
  ThreadInfo info = thread.info;
  info.target = record.target_id;
  // A thread whose exit was not seen to begin has no numbers any more.
  if (record.pid != 0) info.pid = record.pid;
  if (record.tid != 0) info.tid = record.tid;
  if (record.start != 0) info.start_ns = static_cast<int64_t>(record.start);
  if (record.process_start != 0) {
    info.process_start_ns = static_cast<int64_t>(record.process_start);
  }
  info.name = CommToString(record.comm);
  if (record.pid != 0 || info.process.empty()) info.process = CommToString(record.process);
  info.exited = thread.dead;
  if (thread.announced && info.name == thread.info.name && info.process == thread.info.process &&
      info.pid == thread.info.pid && info.tid == thread.info.tid &&
      info.process_start_ns == thread.info.process_start_ns && info.exited == thread.info.exited) {
    return;
  }
  const bool renamed =
      thread.announced && info.pid == info.tid && info.process != thread.info.process;
  thread.info = std::move(info);
  thread.announced = true;
  news_.push_back(thread.info);
  if (renamed) RenameProcess(thread.info);
}

void Accounts::RenameProcess(const ThreadInfo& leader) {
  for (auto& [id, thread] : threads_) {
    if (thread.info.pid != leader.pid || thread.info.process == leader.process || thread.dead)
      continue;
    thread.info.process = leader.process;
    news_.push_back(thread.info);
  }
}

void Accounts::Apply(const profd_thread_record& record) {
  // A zombie, until its parent waits for it: its last account is a record of its own.
  if (record.type == PROFD_RECORD_THREAD && (record.state & kTaskDead) != 0) return;
  const ThreadId id{record.thread_id};
  auto [it, fresh] = threads_.try_emplace(id);
  Thread& thread = it->second;
  if (fresh) {
    thread.info.id = id;
    // A thread seen from its creation on began with empty books; any other is watched from here.
    if (record.born == 0 && books_) {
      profd_books opened = record.books;
      opened.exec_runtime = record.begin_exec;
      opened.run_delay = record.begin_delay;
      thread.books = NarrowBooks(BookTotals(opened, 0));
    }
  }
  if (thread.dead) return;
  const int64_t last_record = thread.now - thread.rested;
  thread.exiting = thread.exiting || record.type != PROFD_RECORD_THREAD;
  // The ring told it late: the thread was read after its exit had begun.
  if (record.type == PROFD_RECORD_EXITING && static_cast<int64_t>(record.now) < last_record) return;
  SettleRest(thread);
  SetAtRest(thread, record.at_rest != 0);
  if (thread.at_rest) ++resting_read_;
  thread.reading = reading_;
  thread.by_ledger = record.armed_at != 0;
  thread.reason = Reason{static_cast<uint8_t>(ReasonIndex(record.ledger.reason))};
  thread.durations.Apply(record, &durations_);
  thread.seen = true;
  thread.unseen = 0;
  thread.dead = record.type == PROFD_RECORD_DEAD;
  thread.now = static_cast<int64_t>(record.now);
  thread.clock = static_cast<int64_t>(record.clock);

  LedgerDelta exact = ExactTotals(record);
  LedgerDelta books;
  if (books_) {
    books = BookTotals(record.books, Since(record.now, record.begin));
  } else {
    books.wall_ns = exact.wall_ns;
  }
  pending_.Add(thread.info.id, Step(thread, record, exact, books), &thread.pending);
  thread.exact = NarrowLedger(exact);
  thread.books = NarrowBooks(books);
  thread.armed_at = record.armed_at;
  Identify(thread, record);
}

void Accounts::BeginReading() {
  for (const ThreadId id : ended_) {
    const auto it = threads_.find(id);
    if (it != threads_.end() && HasEnded(it->second)) threads_.erase(it);
  }
  ended_.clear();
  ++reading_;
  rests_known_ = false;
  resting_read_ = 0;
}

bool Accounts::EndReading(const LeftOut& left_out, bool all) {
  left_out_ = left_out;
  if (all) {
    for (auto& [id, thread] : threads_) {
      if (thread.reading != reading_) SetAtRest(thread, false);
    }
  }
  rests_known_ = left_out.threads == resting_ - resting_read_;
  if (by_target_.empty()) {
    Counts counts;
    for (const auto& [id, thread] : threads_) ++counts[{thread.info.target, thread.info.pid}];
    SetCounts(counts);
  }
  return rests_known_;
}

void Accounts::SetAtRest(Thread& thread, bool at_rest) {
  resting_ -= thread.at_rest ? 1 : 0;
  thread.at_rest = at_rest;
  resting_ += thread.at_rest ? 1 : 0;
}

RestingThread Accounts::Rest(ThreadId id, Thread& thread) const {
  const int64_t step = left_out_.now_ns - thread.now;
  const int64_t clock_step = left_out_.clock_ns - thread.clock;
  thread.now = left_out_.now_ns;
  thread.clock = left_out_.clock_ns;
  thread.rested += step;
  thread.rested_clock += clock_step;
  RestingThread rest = {.thread = id, .wall_ns = books_ ? step : clock_step, .reason = {}};
  if (thread.by_ledger) {
    rest.wall_ns = clock_step;
    rest.reason = thread.reason;
  }
  return rest;
}

void Accounts::SettleRest(Thread& thread) const {
  if (thread.rested == 0 && thread.rested_clock == 0) return;
  LedgerNumbers& exact = thread.exact;
  exact.wall_ns += thread.rested_clock;
  const auto reason = static_cast<size_t>(thread.reason);
  auto total = absl::c_find_if(exact.reasons,
                               [&](const ReasonTotal& each) { return each.reason == reason; });
  if (total == exact.reasons.end()) {
    exact.reasons.push_back({.reason = reason});
    total = std::prev(exact.reasons.end());
  }
  total->off_ns += thread.rested_clock;
  thread.books.wall_ns += books_ ? thread.rested : thread.rested_clock;
  if (books_) thread.books.unattributed_ns += thread.rested;
  thread.rested = thread.rested_clock = 0;
}

void Accounts::ForgetPast() {
  for (auto& [id, thread] : threads_) {
    thread.pending = {};
    thread.seen = false;
  }
  pending_.Clear();
  durations_.clear();
}

Accounts::LedgerNumbers Accounts::NarrowLedger(const LedgerDelta& exact) {
  LedgerNumbers numbers = {.wall_ns = exact.wall_ns, .on_cpu_ns = exact.on_cpu_ns, .reasons = {}};
  for (size_t i = 0; i < kReasonCount; ++i) {
    if (exact.off_ns[i] == 0 && exact.waits[i] == 0) continue;
    numbers.reasons.push_back({.off_ns = exact.off_ns[i], .waits = exact.waits[i], .reason = i});
  }
  return numbers;
}

Accounts::BookNumbers Accounts::NarrowBooks(const LedgerDelta& books) {
  return {.wall_ns = books.wall_ns,
          .on_cpu_ns = books.books_on_cpu_ns,
          .runqueue_ns = books.books_runqueue_ns,
          .unattributed_ns = books.unattributed_ns,
          .voluntary_switches = books.voluntary_switches,
          .involuntary_switches = books.involuntary_switches,
          .minor_faults = books.minor_faults,
          .major_faults = books.major_faults,
          .read_bytes = books.read_bytes,
          .write_bytes = books.write_bytes};
}

LedgerDelta Accounts::Grown(const LedgerDelta& books, const BookNumbers& before) {
  LedgerDelta step;
  step.wall_ns = books.wall_ns - before.wall_ns;
  step.books_on_cpu_ns = books.books_on_cpu_ns - before.on_cpu_ns;
  step.books_runqueue_ns = books.books_runqueue_ns - before.runqueue_ns;
  step.unattributed_ns = books.unattributed_ns - before.unattributed_ns;
  step.voluntary_switches = books.voluntary_switches - before.voluntary_switches;
  step.involuntary_switches = books.involuntary_switches - before.involuntary_switches;
  step.minor_faults = books.minor_faults - before.minor_faults;
  step.major_faults = books.major_faults - before.major_faults;
  step.read_bytes = books.read_bytes - before.read_bytes;
  step.write_bytes = books.write_bytes - before.write_bytes;
  step.on_cpu_ns = step.books_on_cpu_ns;
  step.off_ns[kRunQueueIndex] = step.books_runqueue_ns;
  return step;
}

LedgerDelta Accounts::Step(Thread& thread, const profd_thread_record& record,
                           const LedgerDelta& exact, const LedgerDelta& books) {
  LedgerDelta step = Grown(books, thread.books);
  // The ledger tells of all the time since the last record only if it has gone on all the while.
  const bool went_on =
      record.armed_at != 0 &&
      (thread.announced ? record.armed_at == thread.armed_at : record.armed_at <= record.begin);
  if (!went_on) {
    if (!books_) return step;
    step.on_cpu_ns -= thread.ahead_on_cpu;
    step.off_ns[kRunQueueIndex] -= thread.ahead_queued;
    step.unattributed_ns += thread.ahead_on_cpu + thread.ahead_queued;
    thread.ahead_on_cpu = thread.ahead_queued = 0;
    thread.missing = thread.missed;
    return step;
  }
  step.wall_ns = exact.wall_ns - thread.exact.wall_ns;
  step.on_cpu_ns = exact.on_cpu_ns - thread.exact.on_cpu_ns;
  step.off_ns = exact.off_ns;
  step.waits = exact.waits;
  for (const ReasonTotal& before : thread.exact.reasons) {
    step.off_ns[before.reason] -= before.off_ns;
    step.waits[before.reason] -= before.waits;
  }
  step.unattributed_ns = 0;
  CountUnseen(thread, step);
  const OpenCycle open = DivideOpenCycle(record);
  thread.ahead_on_cpu =
      open.on_cpu_ns - Since(record.books.exec_runtime, record.ledger.exec_runtime);
  thread.ahead_queued = open.queued_ns - Since(record.books.run_delay, record.ledger.run_delay);
  if (record.on_cpu == 0 && ReasonIndex(record.ledger.reason) == kRunQueueIndex) {
    thread.ahead_queued += open.wait_ns;
  }
  return step;
}

// A thread that is read in the middle of a switch has one more in the books for a moment.
void Accounts::CountUnseen(Thread& thread, const LedgerDelta& step) {
  if (!books_) return;
  const int64_t before = thread.missing;
  thread.missing += SwitchesOf(step, true) - SwitchesOf(step, false);
  const int64_t lasting = std::min(before, thread.missing) - thread.missed;
  if (lasting <= 0) return;
  thread.missed += lasting;
  switches_unseen_ += static_cast<uint64_t>(lasting);
}

void Accounts::Finish(ProfileDelta& delta) {
  delta.threads = std::move(news_);
  news_.clear();
  delta.samples.insert(delta.samples.end(), durations_.begin(), durations_.end());
  durations_.clear();
  rests_read_ = static_cast<int64_t>(pending_.rests());
  std::map<uint32_t, TargetActivity> activity;
  Counts counts;
  size_t vanished = 0;
  // Where no reading told the time, each drain counts.
  const bool counts_drain = left_out_.now_ns == 0 || left_out_.now_ns - counted_ns_ >= kDrainNs;
  if (counts_drain) counted_ns_ = left_out_.now_ns;
  for (auto it = threads_.begin(); it != threads_.end();) {
    Thread& thread = it->second;
    const bool rests = rests_known_ && thread.at_rest && thread.reading != reading_;
    if (rests && (books_ || thread.by_ledger)) {
      pending_.AddRest(Rest(it->first, thread), &thread.pending);
    } else if (rests) {
      // Of a thread that ran nothing would be known but its wall clock, either.
      pending_.LedgerOf(it->first, &thread.pending).wall_ns += Rest(it->first, thread).wall_ns;
      thread.seen = true;
    }
    if (const LedgerDelta* did = pending_.FindLedger(thread.pending)) {
      activity[thread.info.target].switches += SwitchesOf(*did, books_);
    }
    thread.pending = {};
    if (exited_.WantsName(thread.info.pid)) {
      exited_.SetName(thread.info.pid, thread.info.process, thread.info.process_start_ns);
    }
    bool vanishes = false;
    if (thread.seen || rests) {
      ++activity[thread.info.target].threads;
      thread.unseen = 0;
    } else {
      SetAtRest(thread, false);
      if (counts_drain) vanishes = ++thread.unseen == kVanishedAfterDrains;
    }
    thread.seen = false;
    if (!thread.dead && vanishes) {
      // Without the per-switch layer the account made at the start of the exit is the last one.
      if (thread.armed_at != 0 || !thread.exiting) ++vanished_;
      thread.info.exited = true;
      delta.threads.push_back(thread.info);
    }
    vanished += thread.vanished() ? 1 : 0;
    if (HasEnded(thread)) {
      ended_.push_back(it->first);
    } else if (!thread.vanished()) {
      ++counts[{thread.info.target, thread.info.pid}];
    }
    ++it;
  }
  crowded_ = vanished > kMostVanished;
  pending_.MoveTo(delta);
  FinishExited(delta, counts, activity);
  activity_.clear();
  for (auto& [target, did] : activity) {
    did.target = target;
    activity_.push_back(did);
  }
  SetCounts(counts);
}

void Accounts::FinishExited(ProfileDelta& delta, const Counts& counts,
                            std::map<uint32_t, TargetActivity>& activity) {
  std::set<int32_t> alive;
  for (const auto& [key, count] : counts) alive.insert(key.second);
  const size_t threads = delta.threads.size(), ledgers = delta.ledgers.size();
  exited_.Finish(delta, [&](int32_t pid) { return alive.contains(pid); });
  for (size_t i = 0; ledgers + i < delta.ledgers.size(); ++i) {
    activity[delta.threads[threads + i].target].switches +=
        SwitchesOf(delta.ledgers[ledgers + i].delta, books_);
  }
}

void Accounts::SetCounts(const Counts& counts) {
  by_target_.clear();
  live_ = 0;
  for (const auto& [key, count] : counts) {
    by_target_.push_back({key.first, key.second, count});
    live_ += count;
  }
}

uint32_t Accounts::TargetOf(ThreadId id) const {
  const auto it = threads_.find(id);
  return it != threads_.end() ? it->second.info.target : 0;
}

int32_t Accounts::ProcessOf(ThreadId id) const {
  const auto it = threads_.find(id);
  return it != threads_.end() ? it->second.info.pid : 0;
}

bool Accounts::Thread::vanished() const { return unseen >= kVanishedAfterDrains; }

bool Accounts::HasEnded(const Thread& thread) const {
  return thread.dead || thread.unseen >= (crowded_ ? kForgottenInACrowd : kForgottenAfterDrains);
}

}  // namespace profd
