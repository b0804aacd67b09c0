#include "daemon/store/ledger_fields.h"

#include "daemon/base/wrapping.h"

namespace profd {
namespace {

int64_t SumOfParts(const LedgerDelta& l) {
  int64_t sum = WrappingAdd(l.on_cpu_ns, l.unattributed_ns);
  for (int64_t off : l.off_ns) sum = WrappingAdd(sum, off);
  return sum;
}

}  // namespace

// The first is what the wall clock has beyond the parts that it is made of. The books are kept as
// differences from our own sums.
LedgerFields ToFields(const LedgerDelta& l) {
  const auto run_queue = static_cast<size_t>(Reason::kRunQueue);
  LedgerFields f{};
  size_t i = 0;
  f[i++] = WrappingSubtract(l.wall_ns, SumOfParts(l));
  f[i++] = l.on_cpu_ns;
  f[i++] = l.unattributed_ns;
  f[i++] = WrappingSubtract(l.books_on_cpu_ns, l.on_cpu_ns);
  f[i++] = WrappingSubtract(l.books_runqueue_ns, l.off_ns[run_queue]);
  f[i++] = l.voluntary_switches;
  f[i++] = l.involuntary_switches;
  f[i++] = l.minor_faults;
  for (size_t r = 0; r < kReasonCount; r++) f[i++] = l.off_ns[r];
  for (size_t r = 0; r < kReasonCount; r++) f[i++] = l.waits[r];
  f[i++] = l.major_faults;
  f[i++] = l.read_bytes;
  f[i++] = l.write_bytes;
  for (const HeapDelta* heap : {&l.allocated, &l.freed}) {
    f[i++] = heap->bytes;
    f[i++] = heap->seen_bytes;
    f[i++] = heap->unseen_bytes;
    f[i++] = heap->events;
    f[i++] = heap->gaps;
    f[i++] = heap->late_bytes;
  }
  for (const HeapDelta* heap : {&l.allocated, &l.freed}) {
    f[i++] = heap->burst_bytes;
    f[i++] = heap->burst_doubt;
    f[i++] = heap->burst_calls;
  }
  f[i++] = l.folded_processes;
  return f;
}

uint64_t MaskOf(const LedgerFields& fields) {
  uint64_t mask = 0;
  for (size_t i = 0; i < kLedgerFields; i++) mask |= uint64_t{fields[i] != 0} << i;
  return mask;
}

LedgerDelta FromFields(const LedgerFields& f) {
  const auto run_queue = static_cast<size_t>(Reason::kRunQueue);
  LedgerDelta l;
  size_t i = 0;
  const int64_t wall_rest = f[i++];
  l.on_cpu_ns = f[i++];
  l.unattributed_ns = f[i++];
  const int64_t books_on_cpu = f[i++];
  const int64_t books_run_queue = f[i++];
  l.voluntary_switches = f[i++];
  l.involuntary_switches = f[i++];
  l.minor_faults = f[i++];
  for (size_t r = 0; r < kReasonCount; r++) l.off_ns[r] = f[i++];
  for (size_t r = 0; r < kReasonCount; r++) l.waits[r] = f[i++];
  l.major_faults = f[i++];
  l.read_bytes = f[i++];
  l.write_bytes = f[i++];
  for (HeapDelta* heap : {&l.allocated, &l.freed}) {
    heap->bytes = f[i++];
    heap->seen_bytes = f[i++];
    heap->unseen_bytes = f[i++];
    heap->events = f[i++];
    heap->gaps = f[i++];
    heap->late_bytes = f[i++];
  }
  for (HeapDelta* heap : {&l.allocated, &l.freed}) {
    heap->burst_bytes = f[i++];
    heap->burst_doubt = f[i++];
    heap->burst_calls = f[i++];
  }
  l.folded_processes = f[i++];
  l.wall_ns = WrappingAdd(wall_rest, SumOfParts(l));
  l.books_on_cpu_ns = WrappingAdd(books_on_cpu, l.on_cpu_ns);
  l.books_runqueue_ns = WrappingAdd(books_run_queue, l.off_ns[run_queue]);
  return l;
}

}  // namespace profd
