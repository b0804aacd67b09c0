// The knob of the switch layer.
#ifndef PROFD_DAEMON_SOURCE_SWITCH_KNOB_H_
#define PROFD_DAEMON_SOURCE_SWITCH_KNOB_H_

#include <cstdint>
#include <string>

#include "bpf/abi.h"
#include "daemon/govern/knob.h"

namespace profd {

// The switch layer is on or off. While it is off, its cost is predicted from the kernel's count of
// switches and the last known cost of one.
class SwitchKnob final : public Knob {
 public:
  // Without `sheddable` the layer is always on.
  explicit SwitchKnob(bool sheddable) : sheddable_(sheddable) {}

  // The time that the kernel takes to enter the program, ns per switch; part of the cost of a
  // switch.
  void SetEntry(double ns) { entry_ns_ = ns; }
  double entry_ns() const { return entry_ns_; }
  // `switches`: of targets in the last `seconds`. `cost`: totals since start.
  void Learn(double seconds, int64_t switches, const profd_switch_cost& cost);

  // Total time of all runs, including entering the program, ns.
  double InPathNs(const profd_switch_cost& cost) const;

  const char* name() const override { return "switch"; }
  Payer payer() const override { return Payer::kTarget; }
  int levels() const override { return sheddable_ ? 2 : 1; }
  double CostAt(int level) const override;
  std::string GivenUpAt(int level) const override;

  double ns_per_switch() const { return ns_per_switch_; }

 private:
  const bool sheddable_;
  profd_switch_cost last_{};
  double switches_per_second_ = 0;
  double entry_ns_ = 0;
  double ns_per_switch_ = 0;  // 0: not measured yet
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_SWITCH_KNOB_H_
