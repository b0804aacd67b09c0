// The source `switch_stack`: where threads leave their CPUs, from one context switch in many that
// the source `switch` enters.
#ifndef PROFD_DAEMON_SOURCE_SWITCH_STACK_H_
#define PROFD_DAEMON_SOURCE_SWITCH_STACK_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/source/context.h"
#include "daemon/source/source.h"
#include "daemon/source/switch_stack_knob.h"
#include "daemon/source/thread.h"

namespace profd {

class SwitchStackSource final : public Source {
 public:
  // `threads` must outlive this.
  SwitchStackSource(const SourceContext& context, const ThreadSource* threads)
      : context_(context), threads_(threads) {}

  const char* name() const override { return "switch_stack"; }
  absl::Status Attach() override;
  void Detach() override;
  absl::Status Apply() override;
  absl::Status Drain(ProfileDelta& delta) override;
  void Costs(std::vector<CostRow>& rows) const override;
  std::vector<Knob*> knobs() override { return {&knob_}; }
  void Learn(const Period& period) override;
  std::optional<LayerState> Status() const override;

 private:
  const SourceContext context_;
  const ThreadSource* const threads_;
  SwitchStackKnob knob_;
  bool detached_ = false;
  int64_t learned_switches_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_SWITCH_STACK_H_
