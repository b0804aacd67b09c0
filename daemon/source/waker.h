// The source `waker`: who ended the waits that ticks have seen.
#ifndef PROFD_DAEMON_SOURCE_WAKER_H_
#define PROFD_DAEMON_SOURCE_WAKER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/source/context.h"
#include "daemon/source/source.h"
#include "daemon/source/switch.h"
#include "daemon/source/thread.h"
#include "daemon/source/waker_knob.h"

namespace profd {

class WakerSource final : public Source {
 public:
  // `threads` and `switches` must outlive this. `switches`: null without that source.
  WakerSource(const SourceContext& context, const ThreadSource* threads,
              const SwitchSource* switches)
      : context_(context), threads_(threads), switches_(switches) {}

  const char* name() const override { return "waker"; }
  absl::Status Attach() override;
  void Calibrate() override;
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
  const SwitchSource* const switches_;
  WakerKnob knob_;
  bool detached_ = false;
  int64_t learned_switches_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_WAKER_H_
