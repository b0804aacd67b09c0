#include "daemon/source/switch.h"

#include <utility>

#include "daemon/source/switch_entry.h"

namespace profd {

absl::Status SwitchSource::Attach() {
  if (!context_.kernel->has_switch_layer()) {
    return absl::UnimplementedError("needs a kernel with CONFIG_FAIR_GROUP_SCHED");
  }
  return absl::OkStatus();
}

// The cost of entering the program.
void SwitchSource::Calibrate() {
  constexpr int kTurns = 6;  // few, because each patches code of the scheduler
  std::vector<std::vector<double>> turns(kTurns);
  for (int turn = 0; turn < kTurns; ++turn) {
    // Apply tries again, and tells what is wrong.
    if (!context_.kernel->SetSwitchLayer(turn % 2 == 1).ok()) break;
    MeasureSwitches(&turns[static_cast<size_t>(turn)]);
  }
  knob_.SetEntry(EntryNs(std::move(turns)));
}

void SwitchSource::Detach() {
  detached_ = true;
  // This cannot fail: it only detaches the program.
  (void)context_.kernel->SetSwitchLayer(false);
}

absl::Status SwitchSource::Apply() {
  detached_ = false;
  const bool on = knob_.level() == 0;
  if (on == context_.kernel->switch_on()) return absl::OkStatus();
  RETURN_IF_ERROR(context_.kernel->SetSwitchLayer(on));
  // Ledgers continue from here, not from the next drain.
  if (on) threads_->Read();
  return absl::OkStatus();
}

absl::Status SwitchSource::Drain(ProfileDelta& delta) {
  delta.switch_on = context_.kernel->switch_on();
  return absl::OkStatus();
}

void SwitchSource::Costs(std::vector<CostRow>& rows) const {
  rows.push_back({.account = "switch",
                  .payer = Payer::kTarget,
                  .ns = static_cast<int64_t>(knob_.InPathNs(context_.kernel->SwitchCost())),
                  .events = threads_->switches()});
}

void SwitchSource::Learn(const Period& period) {
  const int64_t switches = threads_->switches();
  knob_.Learn(period.seconds, switches - std::exchange(learned_switches_, switches),
              context_.kernel->SwitchCost());
}

std::optional<LayerState> SwitchSource::Status() const {
  LayerState layer = {.name = "switch", .on = context_.kernel->switch_on(), .note = {}};
  if (detached_) {
    layer.note = kPausedNote;
  } else if (knob_.level() > 0) {
    layer.note = kShedNote;
  }
  return layer;
}

void SwitchSource::Publish(CollectorState& state) const {
  state.switch_entry_ns = knob_.entry_ns();
}

}  // namespace profd
