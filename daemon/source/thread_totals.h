// What the kernel's records of one thread say of it in all.
#ifndef PROFD_DAEMON_SOURCE_THREAD_TOTALS_H_
#define PROFD_DAEMON_SOURCE_THREAD_TOTALS_H_

#include <cstddef>
#include <cstdint>

#include "bpf/abi.h"
#include "daemon/profile/profile.h"

namespace profd {

// The place of a reason from the kernel in arrays; that of kOther for one that is not known.
size_t ReasonIndex(uint8_t reason);

// now - base, in their unit; either may be the later one.
inline int64_t Since(uint64_t now, uint64_t base) { return static_cast<int64_t>(now - base); }

// The cycle that is open at record.now, divided as the kernel side will settle it. All parts are of
// `open_ns`, the time since the thread last left its CPU.
struct OpenCycle {
  int64_t on_cpu_ns = 0;
  int64_t queued_ns = 0;
  int64_t wait_ns = 0;
};

OpenCycle DivideOpenCycle(const profd_thread_record& record);

// Totals of a thread from record.begin to record.now by the ledger of the per-switch layer: closed
// cycles and the open one, so that on_cpu + sum(off) = wall. Where the ledger stood still meanwhile
// only differences of records since record.armed_at mean anything.
LedgerDelta ExactTotals(const profd_thread_record& record);

// Enters the kernel's own totals, of a thread (profd_books) or of threads that ended
// (profd_exited).
template <typename Books>
void EnterBooks(const Books& books, LedgerDelta* totals) {
  totals->books_on_cpu_ns = static_cast<int64_t>(books.exec_runtime);
  totals->books_runqueue_ns = static_cast<int64_t>(books.run_delay);
  totals->voluntary_switches = static_cast<int64_t>(books.nvcsw);
  totals->involuntary_switches = static_cast<int64_t>(books.nivcsw);
  totals->minor_faults = static_cast<int64_t>(books.min_flt);
  totals->major_faults = static_cast<int64_t>(books.maj_flt);
  totals->read_bytes = static_cast<int64_t>(books.read_bytes);
  totals->write_bytes = static_cast<int64_t>(books.write_bytes);
}

// The same by the kernel's books alone, from the thread's creation on, but for the wall clock,
// which counts from when the account was opened. Blocked time, of unknown reason, means something
// as a difference only.
LedgerDelta BookTotals(const profd_books& books, int64_t wall_ns);

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_THREAD_TOTALS_H_
