// The knob of tracing bursts.
#ifndef PROFD_DAEMON_SOURCE_MALLOC_KNOB_H_
#define PROFD_DAEMON_SOURCE_MALLOC_KNOB_H_

#include <cstdint>
#include <string>

#include "bpf/abi.h"
#include "daemon/govern/knob.h"
#include "daemon/probes/trap.h"
#include "daemon/source/malloc_bursts.h"

namespace profd {

// Bursts get shorter, then rarer, then stop.
class MallocKnob final : public Knob {
 public:
  explicit MallocKnob(BurstPlan whole) : whole_(whole) {}

  // Learns from finished bursts, all since the last call; `cost`: totals since start.
  void Learn(std::span<const BurstResult> bursts, const profd_malloc_cost& cost,
             const Traps& traps);
  // Call this while there are no bursts. Their assumed cost decays, so that they are tried again.
  void PassWithout(double seconds);

  // The bursts at this level.
  BurstPlan PlanAt(int level) const;
  // Total time of all runs, including entering and leaving the program.
  static double InPathNs(const profd_malloc_cost& cost, const Traps& traps);

  const char* name() const override { return "bursts"; }
  Payer payer() const override { return Payer::kTarget; }
  int levels() const override;
  int sampled_levels() const override { return levels() - 1; }
  double CostAt(int level) const override;
  std::string GivenUpAt(int level) const override;

 private:
  const BurstPlan whole_;
  double last_in_path_ns_ = 0;
  double load_ = 0;       // cost per time with probes attached
  double margin_ns_ = 0;  // time with probes attached before and after a burst
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_MALLOC_KNOB_H_
