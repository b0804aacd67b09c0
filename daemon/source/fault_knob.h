// The knob of page faults.
#ifndef PROFD_DAEMON_SOURCE_FAULT_KNOB_H_
#define PROFD_DAEMON_SOURCE_FAULT_KNOB_H_

#include <cstdint>
#include <string>

#include "bpf/abi.h"
#include "daemon/govern/knob.h"

namespace profd {

// Samples fewer pages at each level, and none at the last.
class FaultKnob final : public Knob {
 public:
  struct Work {
    double seconds = 0;
    int64_t faults = 0;       // of targets in this time, from kernel accounting
    profd_fault_cost cost{};  // totals since start
    double trap_ns = 0;       // time to enter and leave the program
  };
  void Learn(const Work& work);
  // Nothing was learned for so long: the rate is believed half as much after each minute.
  void Forget(double seconds);

  // At this level one page in so many is sampled; 0: none.
  uint32_t OneInAt(int level) const;
  // Total time of all runs, including entering and leaving the program.
  static double InPathNs(const profd_fault_cost& cost, double trap_ns);

  const char* name() const override { return "faults"; }
  Payer payer() const override { return Payer::kTarget; }
  int levels() const override;
  int sampled_levels() const override { return levels() - 1; }
  double CostAt(int level) const override;
  std::string GivenUpAt(int level) const override;

 private:
  profd_fault_cost last_{};
  double faults_per_second_ = 0;
  double fault_ns_ = 0;  // of a fault without a sample
  double walk_ns_ = 0;   // of the walk for a sampled fault
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_FAULT_KNOB_H_
