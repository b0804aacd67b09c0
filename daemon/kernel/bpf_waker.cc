// The program at wake-ups, and what it counts.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <utility>
#include <vector>

#include "bpf/abi.h"
#include "bpf/profd.skel.h"
#include "daemon/kernel/bpf_kernel.h"
#include "daemon/kernel/load.h"
#include "daemon/kernel/tables.h"

namespace profd {
namespace {

// For programs that count to end, before their counters are read.
constexpr int kWakerCountingNaps = 100;
constexpr long kWakerCountingNapNs = 50'000;

}  // namespace

absl::Status BpfKernel::SetWakers(uint32_t one_in) {
  if (one_in == 0) {
    waker_link_.reset();
    return absl::OkStatus();
  }
  skeleton_->bss->waker_one_in = one_in;
  if (wakers_on()) return absl::OkStatus();
  UniqueLink link(bpf_program__attach(skeleton_->progs.on_waking));
  if (!link) return LoadError("attach on_waking", errno);
  waker_link_ = std::move(link);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<CounterEntry>> BpfKernel::DrainWakerCounters() {
  const int maps[2] = {bpf_map__fd(skeleton_->maps.waker_even),
                       bpf_map__fd(skeleton_->maps.waker_odd)};
  // Programs that begin after this count in the other epoch; those that run may still be in this
  // one.
  const uint32_t before = skeleton_->bss->waker_epoch;
  std::atomic_ref(skeleton_->bss->waker_epoch).exchange(1 - before);
  const uint32_t cpus = bpf_map__max_entries(skeleton_->maps.waker_scratch);
  int naps = 0;
  for (uint32_t cpu = 0; cpu < std::min<uint32_t>(cpus, PROFD_MAX_CPUS); cpu++) {
    const auto& counting = *static_cast<volatile uint32_t*>(&skeleton_->bss->waker_counting[cpu]);
    while (counting != 0) {
      if (++naps > kWakerCountingNaps) return std::vector<CounterEntry>();
      const timespec nap{.tv_sec = 0, .tv_nsec = kWakerCountingNapNs};
      nanosleep(&nap, nullptr);
    }
  }
  return EmptyCounters(maps[before]);
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
