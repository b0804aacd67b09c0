// The program that counts stacks of context switches, and what it counts.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <bit>
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

absl::Status BpfKernel::SetSwitchStacks(uint32_t one_in) {
  profd_bpf* s = skeleton_.get();
  if (one_in == 0) {
    s->bss->switch_stacks_wanted = 0;
    return absl::OkStatus();
  }
  s->bss->switch_stack_shift = static_cast<uint32_t>(std::countr_zero(one_in));
  if (s->bss->switch_stacks_wanted != 0) return absl::OkStatus();
  const uint32_t place = 0;
  const auto program = static_cast<uint32_t>(bpf_program__fd(s->progs.on_switch_stack));
  if (bpf_map_update_elem(bpf_map__fd(s->maps.after_switch), &place, &program, BPF_ANY) != 0) {
    return LoadError("let on_switch go on with on_switch_stack", errno);
  }
  s->bss->switch_stacks_wanted = 1;
  return absl::OkStatus();
}

bool BpfKernel::switch_stacks_on() const {
  return skeleton_->bss->switch_stacks_wanted != 0 && switch_on();
}

absl::StatusOr<std::vector<CounterEntry>> BpfKernel::DrainSwitchStacks() {
  profd_bpf* s = skeleton_.get();
  s->bss->switch_stack_round++;
  return DrainEpoch(s->maps.switch_stack_even, s->maps.switch_stack_odd, s->bss->switch_stack_epoch,
                    s->bss->switch_stack_counting);
}

profd_switch_stack_cost BpfKernel::SwitchStackCost() const {
  return SumPerCpu<profd_switch_stack_cost>(
      bpf_map__fd(skeleton_->maps.switch_stack_cost), 0,
      [](profd_switch_stack_cost& sum, const profd_switch_stack_cost& v) {
        sum.switches += v.switches;
        sum.samples += v.samples;
        sum.ns += v.ns;
      });
}

}  // namespace profd
