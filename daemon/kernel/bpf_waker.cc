// The program at wake-ups, and what it counts.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "bpf/abi.h"
#include "bpf/profd.skel.h"
#include "daemon/kernel/bpf_kernel.h"
#include "daemon/kernel/epoch.h"
#include "daemon/kernel/load.h"
#include "daemon/kernel/tables.h"

namespace profd {
absl::Status BpfKernel::SetWakers(uint32_t one_in) {
  if (one_in == 0) {
    woken_turn_.store(0, std::memory_order_release);
    waker_link_.reset();
    return absl::OkStatus();
  }
  skeleton_->bss->waker_one_in = one_in;
  if (wakers_on()) return absl::OkStatus();
  UniqueLink link(bpf_program__attach(skeleton_->progs.on_waking));
  if (!link) return LoadError("attach on_waking", errno);
  waker_link_ = std::move(link);
  woken_turn_.store(++waker_turns_, std::memory_order_release);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<CounterEntry>> BpfKernel::DrainWakerCounters() {
  profd_bpf* s = skeleton_.get();
  return DrainEpoch(s->maps.waker_even, s->maps.waker_odd, s->bss->waker_epoch,
                    s->bss->waker_counting);
}

profd_waker_cost BpfKernel::WakerCost() const {
  return SumPerCpu<profd_waker_cost>(bpf_map__fd(skeleton_->maps.waker_cost), 0,
                                     [](profd_waker_cost& sum, const profd_waker_cost& v) {
                                       sum.wakes += v.wakes;
                                       sum.timed += v.timed;
                                       sum.timed_ns += v.timed_ns;
                                       sum.walks += v.walks;
                                       sum.walk_ns += v.walk_ns;
                                     });
}

}  // namespace profd
