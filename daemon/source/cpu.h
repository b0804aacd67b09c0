// The source `cpu`: what threads run, by a clock that interrupts each CPU.
#ifndef PROFD_DAEMON_SOURCE_CPU_H_
#define PROFD_DAEMON_SOURCE_CPU_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/source/context.h"
#include "daemon/source/cpu_clocks.h"
#include "daemon/source/cpu_knob.h"
#include "daemon/source/source.h"
#include "daemon/source/thread.h"

namespace profd {

struct CpuPlan {
  int64_t interval_ns = 1'000'000'000 / 99;  // CPU time between two samples; 0: none are taken
};

class CpuSource final : public Source {
 public:
  // `threads` must outlive this. `seed`: of the instants of samples.
  CpuSource(const SourceContext& context, const ThreadSource* threads, const CpuPlan& plan,
            uint64_t seed)
      : context_(context),
        threads_(threads),
        knob_(plan.interval_ns),
        clocks_(context.kernel, context.clock, seed) {}

  const char* name() const override { return "cpu"; }
  absl::Status Attach() override;
  void Detach() override;
  absl::Status Apply() override;
  absl::Status Drain(ProfileDelta& delta) override;
  int64_t next_ns() const override { return clocks_.next_ns(); }
  void Step() override;
  void Costs(std::vector<CostRow>& rows) const override;
  std::vector<Knob*> knobs() override { return {&knob_}; }
  void Learn(const Period& period) override;
  std::optional<LayerState> Status() const override;

 private:
  const SourceContext context_;
  const ThreadSource* const threads_;
  CpuKnob knob_;
  CpuClocks clocks_;
  absl::Status failed_;  // of the last change of the clocks
  double interrupt_ns_ = 0;
  bool detached_ = false;
  int64_t learned_cpu_ns_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_CPU_H_
