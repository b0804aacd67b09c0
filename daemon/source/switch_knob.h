// What the governor can turn of the per-switch layer.
#ifndef PROFD_DAEMON_SOURCE_SWITCH_KNOB_H_
#define PROFD_DAEMON_SOURCE_SWITCH_KNOB_H_

#include <cstdint>
#include <string>

#include "bpf/abi.h"
#include "daemon/govern/knob.h"

namespace profd {

// The per-switch layer: on, or shed. While it is shed its cost is known from the kernel's count of
// switches and from what one has cost before.
class SwitchKnob final : public Knob {
 public:
  // Without `sheddable` there is no other level than 0.
  explicit SwitchKnob(bool sheddable) : sheddable_(sheddable) {}

  // What the kernel spends on calling the program at all, ns a switch: part of what one costs.
  void SetEntry(double ns) { entry_ns_ = ns; }
  double entry_ns() const { return entry_ns_; }
  // `switches` of targets in the last `seconds`; `cost` are the kernel side's totals since start.
  void Learn(double seconds, int64_t switches, const profd_switch_cost& cost);

  // What all runs have cost, the way into the program included, ns.
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
  double ns_per_switch_ = 0;  // 0: none was timed yet
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_SWITCH_KNOB_H_
