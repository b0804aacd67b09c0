// The tick in the running kernel. On the sampler's thread, beside all the rest.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <span>

#include "bpf/abi.h"
#include "bpf/profd.skel.h"
#include "daemon/kernel/bpf_kernel.h"

namespace profd {
namespace {

// The ring is read soon when it is filled to a part of so many.
constexpr uint64_t kRingFills = 8;

uint64_t Acquire(uint64_t& word) { return std::atomic_ref(word).load(std::memory_order_acquire); }

}  // namespace

std::span<profd_visit> BpfKernel::VisitTable() {
  if (!visit_table_) return {};
  return {visit_table_.get(), PROFD_MAX_VISITS};
}

absl::Status BpfKernel::Visit(size_t count, int64_t instant_ns) {
  skeleton_->bss->tick_instant_ns = static_cast<uint64_t>(instant_ns);
  skeleton_->bss->visit_count = static_cast<uint32_t>(count);
  LIBBPF_OPTS(bpf_test_run_opts, run);
  if (bpf_prog_test_run_opts(bpf_program__fd(skeleton_->progs.tick_list), &run) != 0) {
    return ErrnoStatus("run the tick", errno);
  }
  return absl::OkStatus();
}

absl::Status BpfKernel::VisitAll(int64_t instant_ns, const RecordSink& sink) {
  skeleton_->bss->tick_instant_ns = static_cast<uint64_t>(instant_ns);
  return RunIterator(tick_link_, "tick", sizeof(profd_visit), sink);
}

void BpfKernel::SetTickWeight(int64_t ns) {
  skeleton_->bss->tick_weight_ns = static_cast<uint64_t>(ns);
}

WokenMarks BpfKernel::Woken() {
  return {.marks = skeleton_->bss->woken, .turn = woken_turn_.load(std::memory_order_acquire)};
}

void BpfKernel::SetTickSums(const TickSum& before, const TickSum& now) {
  profd_bpf::profd_bpf__bss* bss = skeleton_->bss;
  bss->quiet_sum_ns_before = before.ns;
  bss->quiet_sum_ticks_before = before.ticks;
  std::atomic_ref(bss->quiet_sum_ns).store(now.ns, std::memory_order_relaxed);
  std::atomic_ref(bss->quiet_sum_ticks).store(now.ticks, std::memory_order_relaxed);
}

void BpfKernel::TakeBorn(absl::FunctionRef<void(const profd_born&)> sink) {
  const uint64_t last = Acquire(skeleton_->bss->births_listed);
  if (last - born_taken_ > PROFD_MAX_BORN) born_taken_ = last - PROFD_MAX_BORN;
  while (born_taken_ != last) {
    profd_born& slot = born_table_.get()[(born_taken_ + 1) % PROFD_MAX_BORN];
    const profd_born born = {.number = Acquire(slot.number),
                             .thread_id = Acquire(slot.thread_id),
                             .kernel_tid = slot.kernel_tid,
                             .pad = 0};
    // It is being written: next time.
    if (born.number <= born_taken_) return;
    ++born_taken_;
    // Another one is there by now.
    if (born.number != born_taken_ || Acquire(slot.number) != born_taken_) continue;
    sink(born);
  }
}

bool BpfKernel::RingHasNews() const {
  return std::atomic_ref(skeleton_->bss->ring_has_news).load(std::memory_order_relaxed) != 0 ||
         skeleton_->bss->ring_held > ring_bytes_ / kRingFills;
}

}  // namespace profd
