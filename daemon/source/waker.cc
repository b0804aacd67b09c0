#include "daemon/source/waker.h"

#include <utility>

#include "daemon/source/samples.h"
#include "daemon/source/switch_entry.h"

namespace profd {
absl::Status WakerSource::Attach() {
  // Once, to learn whether it is permitted. Apply attaches it when there are targets.
  RETURN_IF_ERROR(context_.kernel->SetWakers(knob_.OneInAt(0)));
  return context_.kernel->SetWakers(0);
}

void WakerSource::Calibrate() {
  // A program at a context switch is entered in the same way.
  const double measured = switches_ == nullptr ? 0 : switches_->entry_ns();
  knob_.SetEntry(measured > 0 ? measured : kAssumedEntryNs);
}

void WakerSource::Detach() {
  detached_ = true;
  (void)context_.kernel->SetWakers(0);  // cannot fail
}

absl::Status WakerSource::Apply() {
  detached_ = false;
  return context_.kernel->SetWakers(knob_.OneInAt(knob_.level()));
}

absl::Status WakerSource::Drain(ProfileDelta& delta) {
  delta.wakers_on = context_.kernel->wakers_on();
  return AddSamples(context_.kernel->DrainWakerCounters(), delta);
}

void WakerSource::Costs(std::vector<CostRow>& rows) const {
  const profd_waker_cost cost = context_.kernel->WakerCost();
  rows.push_back({.account = "waker",
                  .payer = Payer::kTarget,
                  .ns = static_cast<int64_t>(knob_.InPathNs(cost)),
                  .events = static_cast<int64_t>(cost.wakes)});
}

void WakerSource::Learn(const Period& period) {
  const int64_t switches = threads_->switches();
  knob_.Learn({.seconds = period.seconds,
               .switches = switches - std::exchange(learned_switches_, switches),
               .cost = context_.kernel->WakerCost()});
}

std::optional<LayerState> WakerSource::Status() const {
  LayerState layer = {.name = "wakers", .on = context_.kernel->wakers_on(), .note = {}};
  if (detached_) {
    layer.note = kPausedNote;
  } else if (knob_.OneInAt(knob_.level()) == 0) {
    layer.note = kShedNote;
  }
  return layer;
}

}  // namespace profd
