#include "daemon/source/switch_stack.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/source/samples.h"

namespace profd {

absl::Status SwitchStackSource::Attach() {
  ASSIGN_OR_RETURN(const std::vector<uint32_t> cpus, context_.kernel->ClockedCpus());
  knob_.SetCpus(cpus.size());
  // Once, to learn whether the kernel takes it. Apply does when there are targets.
  RETURN_IF_ERROR(context_.kernel->SetSwitchStacks(knob_.OneInAt(0)));
  return context_.kernel->SetSwitchStacks(0);
}

void SwitchStackSource::Detach() {
  detached_ = true;
  (void)context_.kernel->SetSwitchStacks(0);  // cannot fail
}

absl::Status SwitchStackSource::Apply() {
  detached_ = false;
  return context_.kernel->SetSwitchStacks(knob_.OneInAt(knob_.level()));
}

absl::Status SwitchStackSource::Drain(ProfileDelta& delta) {
  delta.switch_stacks_on = context_.kernel->switch_stacks_on();
  return AddSamples(context_.kernel->DrainSwitchStacks(), delta);
}

void SwitchStackSource::Costs(std::vector<CostRow>& rows) const {
  const profd_switch_stack_cost cost = context_.kernel->SwitchStackCost();
  rows.push_back({.account = "switch_stack",
                  .payer = Payer::kTarget,
                  .ns = static_cast<int64_t>(cost.ns),
                  .events = static_cast<int64_t>(cost.samples)});
}

void SwitchStackSource::Learn(const Period& period) {
  const int64_t switches = threads_->switches();
  knob_.Learn({.seconds = period.seconds,
               .switches = switches - std::exchange(learned_switches_, switches),
               .cost = context_.kernel->SwitchStackCost()});
}

std::optional<LayerState> SwitchStackSource::Status() const {
  LayerState layer = {
      .name = "switch-stacks", .on = context_.kernel->switch_stacks_on(), .note = {}};
  if (detached_) {
    layer.note = kPausedNote;
  } else if (const uint32_t one_in = knob_.OneInAt(knob_.level()); one_in == 0) {
    layer.note = kShedNote;
  } else if (!layer.on) {
    layer.note = "the layer switch is off";
  } else if (one_in > 1) {
    layer.note = absl::StrCat("one switch in ", one_in, ", or fewer");
  }
  return layer;
}

}  // namespace profd
