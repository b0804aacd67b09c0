// The clock that interrupts each CPU: one perf event per CPU, with the program that counts stacks.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "bpf/abi.h"
#include "bpf/profd.skel.h"
#include "daemon/base/clock.h"
#include "daemon/base/cpu_list.h"
#include "daemon/base/quantile.h"
#include "daemon/kernel/bpf_kernel.h"
#include "daemon/kernel/cpu_clock.h"
#include "daemon/kernel/epoch.h"
#include "daemon/kernel/load.h"
#include "daemon/kernel/tables.h"

namespace profd {
namespace {

// To measure what an interrupt costs.
constexpr int64_t kMeasuredPeriodNs = 20'000;
constexpr int kMeasuredRounds = 6;
constexpr int kMeasuredWork = 500'000;

int64_t WorkNs() {
  const int64_t begin = MonotonicNs();
  for (int i = 0; i < kMeasuredWork; ++i) asm volatile("");
  return MonotonicNs() - begin;
}

}  // namespace

absl::StatusOr<std::vector<uint32_t>> BpfKernel::ClockedCpus() const {
  return OnlineCpus(bpf_map__max_entries(skeleton_->maps.cpu_periods));
}

bool BpfKernel::Runs(CpuClock& clock) {
  uint64_t counted = 0;  // ns that it was on
  return read(clock.event, &counted, sizeof(counted)) == sizeof(counted) &&
         counted != std::exchange(clock.counted, counted);
}

absl::Status BpfKernel::SetCpuClock(uint32_t cpu, int64_t period_ns) {
  if (period_ns == 0) {
    cpu_clocks_.erase(cpu);
    return absl::OkStatus();
  }
  const auto period = static_cast<uint64_t>(period_ns);
  // First: what is counted meanwhile is a sample of the period before, at most one.
  if (bpf_map_update_elem(bpf_map__fd(skeleton_->maps.cpu_periods), &cpu, &period, BPF_ANY) != 0) {
    return ErrnoStatus("set the period of a CPU's clock", errno);
  }
  if (const auto found = cpu_clocks_.find(cpu); found != cpu_clocks_.end()) {
    CpuClock& clock = found->second;
    if (!Runs(clock)) {
      // The CPU was offline for a while. This clock does not start again.
      cpu_clocks_.erase(found);
    } else if (ioctl(clock.event, PERF_EVENT_IOC_PERIOD, &period) == 0) {
      return absl::OkStatus();
    } else {
      return ErrnoStatus("set the period of a CPU's clock", errno);
    }
  }
  ASSIGN_OR_RETURN(UniqueFd event, OpenCpuClock(-1, static_cast<int>(cpu), period_ns));
  UniqueLink link(bpf_program__attach_perf_event(skeleton_->progs.on_cpu_clock, event.get()));
  if (!link) return LoadError("attach on_cpu_clock", errno);
  // The link closes it.
  const int number = event.release();
  cpu_clocks_.insert_or_assign(cpu,
                               CpuClock{.event = number, .counted = 0, .link = std::move(link)});
  return absl::OkStatus();
}

absl::StatusOr<std::vector<CounterEntry>> BpfKernel::DrainCpuCounters() {
  profd_bpf* s = skeleton_.get();
  return DrainEpoch(s->maps.cpu_even, s->maps.cpu_odd, s->bss->cpu_epoch, s->bss->cpu_walking);
}

profd_cpu_cost BpfKernel::CpuCost() const {
  return SumPerCpu<profd_cpu_cost>(bpf_map__fd(skeleton_->maps.cpu_cost), 0,
                                   [](profd_cpu_cost& sum, const profd_cpu_cost& v) {
                                     sum.samples += v.samples;
                                     sum.ns += v.ns;
                                   });
}

absl::StatusOr<double> BpfKernel::MeasureCpuInterrupt() const {
  ASSIGN_OR_RETURN(const UniqueFd event, OpenCpuClock(0, -1, kMeasuredPeriodNs));
  std::vector<int64_t> with, without;
  for (int round = 0; round < kMeasuredRounds; ++round) {
    without.push_back(WorkNs());
    if (ioctl(event.get(), PERF_EVENT_IOC_ENABLE, 0) != 0) {
      return ErrnoStatus("start the clock of a thread", errno);
    }
    with.push_back(WorkNs());
    ioctl(event.get(), PERF_EVENT_IOC_DISABLE, 0);
  }
  const double interrupted = LowerQuartile(with);
  const double interrupts = interrupted / static_cast<double>(kMeasuredPeriodNs);
  return interrupts > 0 ? std::max(0.0, interrupted - LowerQuartile(without)) / interrupts : 0;
}

}  // namespace profd
