#include "daemon/store/slice.h"

#include <algorithm>

namespace profd {
namespace {

// The numbers of a header that are sums.
constexpr int64_t SliceHeader::* kSums[] = {
    &SliceHeader::books_ns,
    &SliceHeader::switch_ns,
    &SliceHeader::tick_ns,
    &SliceHeader::heap_ns,
    &SliceHeader::faults_ns,
    &SliceHeader::mappings_ns,
    &SliceHeader::cpu_ns,
    &SliceHeader::bursts_on_ns,
    &SliceHeader::bursts,
    &SliceHeader::burst_ns,
    &SliceHeader::burst_span_ns,
    &SliceHeader::ticks_missed,
    &SliceHeader::walks,
    &SliceHeader::torn_walks,
    &SliceHeader::lost_weight_ns,
    &SliceHeader::folded_threads,
    &SliceHeader::disk_ns,
    &SliceHeader::wakers_ns,
    &SliceHeader::switch_stacks_ns,
};

}  // namespace

SliceHeader HeaderOf(const ProfileDelta& d) {
  const int64_t length = d.end_ns - d.begin_ns;
  const auto part = [length](bool on) { return on ? length : 0; };
  return {.span = {d.begin_ns, d.end_ns},
          .books_ns = part(d.books_on),
          .switch_ns = part(d.switch_on),
          .tick_ns = part(d.tick_on),
          .heap_ns = part(d.heap_on),
          .faults_ns = part(d.faults_on),
          .mappings_ns = part(d.mappings_on),
          .cpu_ns = part(d.cpu_on),
          .disk_ns = part(d.disk_on),
          .wakers_ns = part(d.wakers_on),
          .switch_stacks_ns = part(d.switch_stacks_on),
          .bursts_on_ns = part(d.bursts_on),
          .bursts = d.bursts,
          .burst_ns = d.burst_ns,
          .burst_span_ns = d.burst_span_ns,
          .tick_interval_ns = d.tick_interval_ns,
          .ticks = d.ticks,
          .ticks_missed = d.ticks_missed,
          .walks = d.walks,
          .torn_walks = d.torn_walks,
          .lost_weight_ns = d.lost_weight_ns,
          .long_rest_ns = d.long_rest_ns,
          .long_work_ns = d.long_work_ns,
          .cost = d.cost,
          .losses = d.losses};
}

void AddHeader(const SliceHeader& header, SliceHeader* sum) {
  if (sum->drains == 0) {
    sum->span = header.span;
  } else {
    sum->span.begin_ns = std::min(sum->span.begin_ns, header.span.begin_ns);
    sum->span.end_ns = std::max(sum->span.end_ns, header.span.end_ns);
  }
  const int64_t ticks = WrappingAdd(sum->ticks, header.ticks);
  if (ticks != 0) {
    const double weighted =
        static_cast<double>(sum->tick_interval_ns) * static_cast<double>(sum->ticks) +
        static_cast<double>(header.tick_interval_ns) * static_cast<double>(header.ticks);
    const double mean = weighted / static_cast<double>(ticks);
    // Damaged numbers may give any mean.
    sum->tick_interval_ns = static_cast<int64_t>(std::clamp(mean, -9e18, 9e18));
  } else {
    sum->tick_interval_ns = std::max(sum->tick_interval_ns, header.tick_interval_ns);
  }
  sum->ticks = ticks;
  sum->drains = WrappingAdd(sum->drains, header.drains);
  for (int64_t SliceHeader::* number : kSums) {
    sum->*number = WrappingAdd(sum->*number, header.*number);
  }
  sum->long_rest_ns = std::max(sum->long_rest_ns, header.long_rest_ns);
  sum->long_work_ns = std::max(sum->long_work_ns, header.long_work_ns);
  AddCost(header.cost, &sum->cost);
  for (size_t i = 0; i < kLossCount; i++) sum->losses[i] += header.losses[i];
}

void AddLedger(const LedgerDelta& delta, LedgerDelta* sum) {
  const auto add = [](int64_t value, int64_t* to) { *to = WrappingAdd(*to, value); };
  add(delta.wall_ns, &sum->wall_ns);
  add(delta.on_cpu_ns, &sum->on_cpu_ns);
  for (size_t r = 0; r < kReasonCount; r++) {
    add(delta.off_ns[r], &sum->off_ns[r]);
    add(delta.waits[r], &sum->waits[r]);
  }
  add(delta.unattributed_ns, &sum->unattributed_ns);
  add(delta.books_on_cpu_ns, &sum->books_on_cpu_ns);
  add(delta.books_runqueue_ns, &sum->books_runqueue_ns);
  add(delta.voluntary_switches, &sum->voluntary_switches);
  add(delta.involuntary_switches, &sum->involuntary_switches);
  add(delta.minor_faults, &sum->minor_faults);
  add(delta.major_faults, &sum->major_faults);
  add(delta.read_bytes, &sum->read_bytes);
  add(delta.write_bytes, &sum->write_bytes);
  AddHeap(delta.allocated, &sum->allocated);
  AddHeap(delta.freed, &sum->freed);
  add(delta.folded_processes, &sum->folded_processes);
}

void Slice::Clear() {
  header = {};
  rows.clear();
  ledgers.clear();
  samples.clear();
  squares.clear();
  waits.clear();
}

size_t Slice::Bytes() const {
  return sizeof(*this) + rows.capacity() * sizeof(Row) + ledgers.capacity() * sizeof(LedgerDelta) +
         samples.capacity() * sizeof(SiteSample) + squares.capacity() * sizeof(double) +
         waits.capacity() * sizeof(StoredWait) +
         header.cost.targets.capacity() * sizeof(TargetCost);
}

void AddRest(uint8_t reason, int64_t rest_ns, LedgerDelta* sum) {
  if (rest_ns == 0) return;
  int64_t& waited = reason == Row::kNoReason ? sum->unattributed_ns : sum->off_ns[reason];
  waited = WrappingAdd(waited, rest_ns);
  sum->wall_ns = WrappingAdd(sum->wall_ns, rest_ns);
}

LedgerDelta LedgerOf(const Slice& slice, const Row& row) {
  LedgerDelta ledger;
  if (row.ledger != Row::kNoLedger) ledger = slice.ledgers[row.ledger];
  AddRest(row.rest_reason, row.rest_ns, &ledger);
  return ledger;
}

size_t Segment::Bytes() const {
  size_t bytes = sizeof(*this) + threads.capacity() * sizeof(threads[0]) +
                 sites.capacity() * sizeof(Site) + stacks.capacity() * sizeof(stacks[0]);
  for (const Slice& slice : slices) bytes += slice.Bytes();
  return bytes;
}

}  // namespace profd
