#include "daemon/source/thread_totals.h"

#include <algorithm>

namespace profd {
namespace {

constexpr uint32_t kTaskRunning = 0;
constexpr uint32_t kTaskWakingOrNew = 0x200 | 0x800;
constexpr size_t kRunQueueIndex = static_cast<size_t>(Reason::kRunQueue);

}  // namespace

size_t ReasonIndex(uint8_t reason) {
  return reason < kReasonCount ? reason : static_cast<size_t>(Reason::kOther);
}

OpenCycle DivideOpenCycle(const profd_thread_record& record) {
  const profd_ledger& ledger = record.ledger;
  const profd_books& books = record.books;
  const auto ago = [&](uint64_t clock) { return static_cast<int64_t>(record.clock - clock); };
  const int64_t open_ns = std::max<int64_t>(0, ago(ledger.since));
  OpenCycle cycle;
  // An account that was opened in the middle of a run has not left its CPU since.
  if (ledger.phase == PROFD_PHASE_ON_CPU && record.on_cpu != 0) {
    cycle.on_cpu_ns = open_ns;
    return cycle;
  }
  int64_t on_cpu = static_cast<int64_t>(books.exec_runtime - ledger.exec_runtime);
  int64_t queued = static_cast<int64_t>(books.run_delay - ledger.run_delay);
  const bool runnable = record.state == kTaskRunning || (record.state & kTaskWakingOrNew) != 0;
  if (record.on_cpu != 0 && ago(books.last_arrival) <= open_ns) {
    // The books are as of the last scheduler tick; it has run since it arrived.
    on_cpu = std::max(on_cpu, ago(books.last_arrival));
  } else if (runnable && record.on_cpu == 0 && books.last_queued != 0) {
    queued += std::max<int64_t>(0, ago(books.last_queued));
  }
  cycle.on_cpu_ns = std::clamp<int64_t>(on_cpu, 0, open_ns);
  cycle.queued_ns = std::clamp<int64_t>(queued, 0, open_ns - cycle.on_cpu_ns);
  cycle.wait_ns = open_ns - cycle.on_cpu_ns - cycle.queued_ns;
  return cycle;
}

LedgerDelta ExactTotals(const profd_thread_record& record) {
  const profd_ledger& ledger = record.ledger;
  const OpenCycle open = DivideOpenCycle(record);
  LedgerDelta totals;
  // A reading that raced with a switch lies before it.
  totals.wall_ns = Since(std::max(record.clock, ledger.since), record.begin_clock);
  totals.on_cpu_ns = Since(ledger.exec_runtime, record.begin_exec) + open.on_cpu_ns;
  for (size_t i = 0; i < kReasonCount; ++i) {
    totals.off_ns[i] = static_cast<int64_t>(ledger.reasons[i].ns);
    totals.waits[i] = static_cast<int64_t>(ledger.reasons[i].count);
  }
  totals.off_ns[kRunQueueIndex] += Since(ledger.run_delay, record.begin_delay) + open.queued_ns;
  totals.off_ns[ReasonIndex(ledger.reason)] += open.wait_ns;
  return totals;
}

LedgerDelta BookTotals(const profd_books& books, int64_t wall_ns) {
  LedgerDelta totals;
  totals.wall_ns = wall_ns;
  EnterBooks(books, &totals);
  totals.on_cpu_ns = totals.books_on_cpu_ns;
  totals.off_ns[kRunQueueIndex] = totals.books_runqueue_ns;
  totals.unattributed_ns = totals.wall_ns - totals.on_cpu_ns - totals.books_runqueue_ns;
  return totals;
}

}  // namespace profd
