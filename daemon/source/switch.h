// The source `switch`: exact blocked time by reason, from a program at each context switch.
#ifndef PROFD_DAEMON_SOURCE_SWITCH_H_
#define PROFD_DAEMON_SOURCE_SWITCH_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/source/context.h"
#include "daemon/source/source.h"
#include "daemon/source/switch_knob.h"
#include "daemon/source/thread.h"

namespace profd {

class SwitchSource final : public Source {
 public:
  // `threads` must outlive this. Without `sheddable` the governor leaves it on.
  SwitchSource(const SourceContext& context, ThreadSource* threads, bool sheddable)
      : context_(context), threads_(threads), knob_(sheddable) {}

  // Time to enter a program at a context switch, ns; 0: not measured.
  double entry_ns() const { return knob_.entry_ns(); }

  const char* name() const override { return "switch"; }
  absl::Status Attach() override;
  void Calibrate() override;
  void Detach() override;
  absl::Status Apply() override;
  absl::Status Drain(ProfileDelta& delta) override;
  void Costs(std::vector<CostRow>& rows) const override;
  std::vector<Knob*> knobs() override { return {&knob_}; }
  void Learn(const Period& period) override;
  std::optional<LayerState> Status() const override;
  void Publish(CollectorState& state) const override;

 private:
  const SourceContext context_;
  ThreadSource* const threads_;
  SwitchKnob knob_;
  bool detached_ = false;
  int64_t learned_switches_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_SWITCH_H_
