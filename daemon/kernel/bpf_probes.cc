// Programs at probes: where they stand, and what they count.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <vector>

#include "bpf/abi.h"
#include "bpf/profd.skel.h"
#include "daemon/kernel/bpf_kernel.h"
#include "daemon/kernel/epoch.h"
#include "daemon/kernel/tables.h"

namespace profd {

absl::Status BpfKernel::DrainHeap(const RecordSink& sink, bool all) {
  if (!heap_link_) return absl::OkStatus();
  skeleton_->bss->drain_all = all;
  return RunIterator(heap_link_, "drain_heap", sizeof(profd_heap_record), sink);
}

absl::StatusOr<std::vector<CounterEntry>> BpfKernel::DrainHeapCounters() {
  profd_bpf* s = skeleton_.get();
  // A program counts while it holds memory for a walk.
  const uint32_t cpus = bpf_map__max_entries(s->maps.own_scratch) / PROFD_OWN_WALKS_PER_CPU;
  return DrainEpoch(s->maps.heap_even, s->maps.heap_odd, s->bss->heap_epoch,
                    {s->bss->own_walking, size_t{cpus} * PROFD_OWN_WALK_WORDS});
}

void BpfKernel::SetHeapSampling(uint32_t one_in) { skeleton_->bss->heap_skip_mask = one_in - 1; }

void BpfKernel::SetHeapSettled(int32_t pid, WatchId module, bool settled) {
  const profd_heap_round_key key = {.pid = static_cast<uint32_t>(pid),
                                    .watch_id = static_cast<uint32_t>(module)};
  uint32_t round = 0;
  while (settled && round == 0) round = ++heap_rounds_ & PROFD_LAST_HEAP_ROUND;
  // Without room for it gaps are not told of.
  (void)bpf_map_update_elem(bpf_map__fd(skeleton_->maps.heap_rounds), &key, &round, BPF_ANY);
}

void BpfKernel::ForgetHeapSettled(int32_t pid, WatchId module) {
  const profd_heap_round_key key = {.pid = static_cast<uint32_t>(pid),
                                    .watch_id = static_cast<uint32_t>(module)};
  (void)bpf_map_delete_elem(bpf_map__fd(skeleton_->maps.heap_rounds), &key);
}

uint64_t BpfKernel::HeapRefusals() const {
  return std::atomic_ref(skeleton_->bss->heap_refusals).load(std::memory_order_relaxed);
}

std::vector<HeapTally> BpfKernel::HeapTallies() const {
  std::vector<HeapTally> tallies;
  const int table = bpf_map__fd(skeleton_->maps.heap_tallies);
  std::vector<profd_heap_tally> by_cpu(
      static_cast<size_t>(std::max(1, libbpf_num_possible_cpus())));
  uint32_t key = 0;
  const uint32_t* last = nullptr;
  while (tallies.size() < PROFD_MAX_HEAP_TALLIES && bpf_map_get_next_key(table, last, &key) == 0) {
    last = &key;
    if (bpf_map_lookup_elem(table, &key, by_cpu.data()) != 0) continue;
    profd_heap_tally tally{};
    for (const profd_heap_tally& own : by_cpu) {
      tally.held += own.held;
      tally.refused += own.refused;
    }
    tallies.push_back({.module = WatchId{static_cast<uint16_t>(key / PROFD_HEAP_NUMBERS)},
                       .number = key % PROFD_HEAP_NUMBERS,
                       .held = tally.held,
                       .refused = tally.refused});
  }
  return tallies;
}

void BpfKernel::ForgetHeapTallies(WatchId module) {
  for (uint32_t number = 0; number < PROFD_HEAP_NUMBERS; ++number) {
    const uint32_t key = PROFD_HEAP_TALLY_KEY(static_cast<uint32_t>(module), number);
    (void)bpf_map_delete_elem(bpf_map__fd(skeleton_->maps.heap_tallies), &key);
  }
}

absl::StatusOr<Probe> BpfKernel::AttachHeapProbe(int file, int32_t pid,
                                                 std::span<const ProbePlace> places) {
  return probes_.Put(skeleton_->progs.on_heap_event, file, pid, places);
}

absl::StatusOr<Probe> BpfKernel::AttachLiveProbe(int file, int32_t pid,
                                                 std::span<const ProbePlace> places) {
  return probes_.Put(skeleton_->progs.on_live_object, file, pid, places);
}

absl::StatusOr<Probe> BpfKernel::AttachMapProbe(int file, int32_t pid,
                                                std::span<const ProbePlace> places) {
  return probes_.Put(skeleton_->progs.on_map_call, file, pid, places);
}

void BpfKernel::SetMapSampling(uint32_t one_in) { skeleton_->bss->map_skip_mask = one_in - 1; }
bool BpfKernel::has_map_layer() const { return bpf_program__fd(skeleton_->progs.on_map_call) >= 0; }

absl::StatusOr<Probe> BpfKernel::AttachToldProbe(int file, int32_t pid,
                                                 std::span<const ProbePlace> places) {
  return probes_.Put(skeleton_->progs.on_told_object, file, pid, places);
}

absl::StatusOr<uint32_t> BpfKernel::NumberOfArguments(const profd_usdt_spec& spec) {
  const auto known = std::find_if(
      usdt_specs_.begin(), usdt_specs_.end(),
      [&](const profd_usdt_spec& other) { return std::memcmp(&other, &spec, sizeof(spec)) == 0; });
  const auto number = static_cast<uint32_t>(known - usdt_specs_.begin());
  if (known != usdt_specs_.end()) return number;
  if (number == PROFD_MAX_USDT_SPECS) {
    return absl::ResourceExhaustedError("too many forms of arguments of USDT probes");
  }
  if (bpf_map_update_elem(bpf_map__fd(skeleton_->maps.usdt_specs), &number, &spec, BPF_ANY) != 0) {
    return ErrnoStatus("tell the arguments of a USDT probe", errno);
  }
  usdt_specs_.push_back(spec);
  return number;
}

absl::StatusOr<Probe> BpfKernel::AttachMallocProbe(int file, int32_t pid,
                                                   std::span<const ProbePlace> places) {
  return probes_.Put(skeleton_->progs.on_malloc, file, pid, places);
}

void BpfKernel::SetMallocBurst(int64_t begin_ns, int64_t length_ns) {
  // No burst in between: a length is always that of the begin before it, or none.
  std::atomic_ref(skeleton_->bss->malloc_length_ns).store(0);
  std::atomic_ref(skeleton_->bss->malloc_begin_ns).store(static_cast<uint64_t>(begin_ns));
  std::atomic_ref(skeleton_->bss->malloc_length_ns).store(static_cast<uint64_t>(length_ns));
}

absl::StatusOr<MallocCounts> BpfKernel::DrainMalloc() {
  MallocCounts counts;
  ASSIGN_OR_RETURN(counts.samples, EmptyCounters(bpf_map__fd(skeleton_->maps.malloc_counts)));
  auto threads =
      EmptyTable<uint64_t, profd_malloc_thread>(bpf_map__fd(skeleton_->maps.malloc_threads));
  RETURN_IF_ERROR(threads.status());
  counts.threads = *std::move(threads);
  return counts;
}

}  // namespace profd
