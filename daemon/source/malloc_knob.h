// What the governor can turn of bursts of tracing.
#ifndef PROFD_DAEMON_SOURCE_MALLOC_KNOB_H_
#define PROFD_DAEMON_SOURCE_MALLOC_KNOB_H_

#include <cstdint>
#include <string>

#include "bpf/abi.h"
#include "daemon/govern/knob.h"
#include "daemon/probes/trap.h"
#include "daemon/source/malloc_bursts.h"

namespace profd {

// Bursts of tracing of glibc's malloc: first they are shorter, then rarer, then there are none.
class MallocKnob final : public Knob {
 public:
  explicit MallocKnob(BurstPlan whole) : whole_(whole) {}

  // A burst that is over; `cost` are the kernel side's totals since start.
  void Learn(const BurstResult& burst, const profd_malloc_cost& cost, const Traps& traps);
  // While there are no bursts nothing is learned: what they cost is forgotten bit by bit, so that
  // they are tried again.
  void PassWithout(double seconds);

  // What a level means.
  BurstPlan PlanAt(int level) const;
  // What all runs have cost, the way into the program included.
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
  double load_ = 0;       // cost in the time in which probes stand, by that time
  double margin_ns_ = 0;  // for which they stand before and after a burst
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_MALLOC_KNOB_H_
