// The knob of the source `switch_stack`.
#ifndef PROFD_DAEMON_SOURCE_SWITCH_STACK_KNOB_H_
#define PROFD_DAEMON_SOURCE_SWITCH_STACK_KNOB_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "bpf/abi.h"
#include "daemon/govern/knob.h"

namespace profd {

// Aims at so many stacks a second on each CPU, whatever the rate of switches: fewer at each level.
// At the last there are none.
class SwitchStackKnob final : public Knob {
 public:
  // The CPUs that are online.
  void SetCpus(size_t cpus) { cpus_ = std::max<size_t>(cpus, 1); }

  struct Work {
    double seconds = 0;
    int64_t switches = 0;            // of targets in this time
    profd_switch_stack_cost cost{};  // totals since start
  };
  void Learn(const Work& work);

  // One switch in so many has its stack taken at the rate of late, a power of two; 0: none.
  uint32_t OneInAt(int level) const;

  const char* name() const override { return "switch-stacks"; }
  Payer payer() const override { return Payer::kTarget; }
  int levels() const override;
  int sampled_levels() const override { return levels() - 1; }
  double CostAt(int level) const override;
  std::string GivenUpAt(int level) const override;

 private:
  size_t cpus_ = 1;
  profd_switch_stack_cost last_{};
  double switches_per_second_ = 0;
  double stack_ns_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_SWITCH_STACK_KNOB_H_
