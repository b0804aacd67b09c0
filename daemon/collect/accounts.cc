#include "daemon/collect/accounts.h"

#include <algorithm>
#include <map>
#include <utility>

#include "daemon/collect/decode.h"

namespace profd {
namespace {

constexpr uint32_t kTaskRunning = 0;
constexpr uint32_t kTaskWakingOrNew = 0x200 | 0x800;
constexpr uint32_t kTaskDead = 0x80;
constexpr int kVanishedAfterDrains = 2;
// Kept for this long, so that a last account that comes late is not taken for a whole new life.
constexpr int kForgottenAfterDrains = 4096;

size_t ReasonIndex(uint8_t reason) {
  return reason < kReasonCount ? reason : static_cast<size_t>(Reason::kOther);
}

constexpr size_t kRunQueueIndex = static_cast<size_t>(Reason::kRunQueue);

// Run-queue part of an open wait: from when it was woken, ns. The kernel's time stamps are of the
// scheduler's clock; the last switch-in, which we saw on ours, tells the distance between the two.
int64_t QueuedInOpenWait(const profd_thread_record& record, int64_t open_ns) {
  const profd_ledger& ledger = record.ledger;
  const profd_books& books = record.books;
  const bool runnable = record.state == kTaskRunning || (record.state & kTaskWakingOrNew) != 0;
  if (!runnable || books.last_queued == 0) return 0;
  // What it waited before it was moved to another queue is in run_delay already.
  int64_t queued = static_cast<int64_t>(books.run_delay - ledger.run_delay);
  if (ledger.last_in != 0) {
    const auto distance = static_cast<int64_t>(ledger.last_in - books.last_arrival);
    queued += static_cast<int64_t>(record.now - books.last_queued) - distance;
  }
  return std::clamp<int64_t>(queued, 0, open_ns);
}

void AddSwitchLayer(const profd_thread_record& record, LedgerDelta& totals) {
  const profd_ledger& ledger = record.ledger;
  totals.on_cpu_ns = static_cast<int64_t>(ledger.on_cpu);
  for (size_t i = 0; i < kReasonCount; ++i) {
    totals.off_ns[i] = static_cast<int64_t>(ledger.off[i]);
    totals.waits[i] = static_cast<int64_t>(ledger.waits[i]);
  }
  if (ledger.pending_off != 0) {
    // As the kernel side settles it, but for what the run itself will tell.
    const auto queued = static_cast<int64_t>(record.books.run_delay - ledger.run_delay);
    totals.off_ns[kRunQueueIndex] += queued;
    totals.off_ns[ReasonIndex(ledger.pending_reason)] +=
        static_cast<int64_t>(ledger.pending_off) - queued;
  }
  const auto open_ns = std::max<int64_t>(0, static_cast<int64_t>(record.now - ledger.since));
  switch (ledger.phase) {
    case PROFD_PHASE_ON_CPU:
      totals.on_cpu_ns += open_ns;
      break;
    case PROFD_PHASE_RUNQUEUE:
      totals.off_ns[kRunQueueIndex] += open_ns;
      break;
    default: {
      const int64_t queued = QueuedInOpenWait(record, open_ns);
      totals.off_ns[kRunQueueIndex] += queued;
      totals.off_ns[ReasonIndex(ledger.reason)] += open_ns - queued;
    }
  }
}

LedgerDelta Plus(const LedgerDelta& a, const LedgerDelta& b, int64_t sign) {
  LedgerDelta sum;
  sum.wall_ns = a.wall_ns + sign * b.wall_ns;
  sum.on_cpu_ns = a.on_cpu_ns + sign * b.on_cpu_ns;
  for (size_t i = 0; i < kReasonCount; ++i) {
    sum.off_ns[i] = a.off_ns[i] + sign * b.off_ns[i];
    sum.waits[i] = a.waits[i] + sign * b.waits[i];
  }
  sum.unattributed_ns = a.unattributed_ns + sign * b.unattributed_ns;
  sum.books_on_cpu_ns = a.books_on_cpu_ns + sign * b.books_on_cpu_ns;
  sum.books_runqueue_ns = a.books_runqueue_ns + sign * b.books_runqueue_ns;
  sum.voluntary_switches = a.voluntary_switches + sign * b.voluntary_switches;
  sum.involuntary_switches = a.involuntary_switches + sign * b.involuntary_switches;
  sum.minor_faults = a.minor_faults + sign * b.minor_faults;
  sum.major_faults = a.major_faults + sign * b.major_faults;
  sum.read_bytes = a.read_bytes + sign * b.read_bytes;
  sum.write_bytes = a.write_bytes + sign * b.write_bytes;
  return sum;
}

int64_t Since(uint64_t now, uint64_t base) { return static_cast<int64_t>(now - base); }

}  // namespace

LedgerDelta TotalsOf(const profd_thread_record& record, const profd_books& base,
                     const AccountLayers& layers) {
  LedgerDelta totals;
  const profd_books& books = record.books;
  totals.wall_ns = Since(record.now, record.begin);
  if (layers.per_switch) AddSwitchLayer(record, totals);
  if (!layers.books) return totals;
  totals.books_on_cpu_ns = Since(books.exec_runtime, base.exec_runtime);
  totals.books_runqueue_ns = Since(books.run_delay, base.run_delay);
  totals.voluntary_switches = Since(books.nvcsw, base.nvcsw);
  totals.involuntary_switches = Since(books.nivcsw, base.nivcsw);
  totals.minor_faults = Since(books.min_flt, base.min_flt);
  totals.major_faults = Since(books.maj_flt, base.maj_flt);
  totals.read_bytes = Since(books.read_bytes, base.read_bytes);
  totals.write_bytes = Since(books.write_bytes, base.write_bytes);
  if (!layers.per_switch) {
    totals.on_cpu_ns = totals.books_on_cpu_ns;
    totals.off_ns[kRunQueueIndex] = totals.books_runqueue_ns;
    totals.unattributed_ns = totals.wall_ns - totals.on_cpu_ns - totals.books_runqueue_ns;
  }
  return totals;
}

void Accounts::Identify(Thread& thread, const profd_thread_record& record) {
  ThreadInfo info = thread.info;
  info.target = record.target_id;
  // A thread that is being buried has no numbers any more, and its leader may be another's memory.
  if (record.type != PROFD_RECORD_DEAD || !thread.announced) {
    if (record.pid != 0) info.pid = record.pid;
    if (record.tid != 0) info.tid = record.tid;
    info.name = CommToString(record.comm);
    if (record.pid != 0 || info.process.empty()) info.process = CommToString(record.process);
  }
  info.exited = thread.dead;
  if (thread.announced && info.name == thread.info.name && info.process == thread.info.process &&
      info.pid == thread.info.pid && info.tid == thread.info.tid &&
      info.exited == thread.info.exited) {
    return;
  }
  thread.info = std::move(info);
  thread.announced = true;
  news_.push_back(thread.info);
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
    if (record.born == 0) thread.base = record.books;
  }
  if (thread.dead) return;
  thread.seen = true;
  thread.unseen = 0;
  thread.dead = record.type == PROFD_RECORD_DEAD;
  thread.exiting = thread.exiting || record.type != PROFD_RECORD_THREAD;
  thread.current = TotalsOf(record, thread.base, layers_);
  Identify(thread, record);
}

void Accounts::Finish(ProfileDelta& delta) {
  delta.threads = std::move(news_);
  news_.clear();
  for (auto it = threads_.begin(); it != threads_.end();) {
    Thread& thread = it->second;
    if (thread.seen) {
      delta.ledgers.push_back({it->first, Plus(thread.current, thread.last, -1)});
      thread.last = thread.current;
    } else {
      ++thread.unseen;
    }
    if (!thread.dead && thread.unseen == kVanishedAfterDrains) {
      // Without the per-switch layer the account made at the start of the exit is the last one.
      if (layers_.per_switch || !thread.exiting) ++vanished_;
      thread.info.exited = true;
      delta.threads.push_back(thread.info);
    }
    thread.seen = false;
    if (thread.dead || thread.unseen >= kForgottenAfterDrains) {
      threads_.erase(it++);
    } else {
      ++it;
    }
  }
}

bool Accounts::Thread::vanished() const { return unseen >= kVanishedAfterDrains; }

size_t Accounts::live_threads() const {
  size_t live = 0;
  for (const auto& [id, thread] : threads_) live += thread.vanished() ? 0 : 1;
  return live;
}

std::vector<Accounts::TargetThreads> Accounts::ByTarget() const {
  std::map<std::pair<uint32_t, int32_t>, uint32_t> counts;
  for (const auto& [id, thread] : threads_) {
    if (!thread.vanished()) ++counts[{thread.info.target, thread.info.pid}];
  }
  std::vector<TargetThreads> result;
  result.reserve(counts.size());
  for (const auto& [key, count] : counts) result.push_back({key.first, key.second, count});
  return result;
}

}  // namespace profd
