// What the governor can turn of page faults.
#ifndef PROFD_DAEMON_SOURCE_FAULT_KNOB_H_
#define PROFD_DAEMON_SOURCE_FAULT_KNOB_H_

#include <cstdint>
#include <string>

#include "bpf/abi.h"
#include "daemon/govern/knob.h"

namespace profd {

// Page faults: first fewer pages are sampled, then none are.
class FaultKnob final : public Knob {
 public:
  struct Work {
    double seconds = 0;
    int64_t faults = 0;       // of targets, in the last second, by the kernel's books
    profd_fault_cost cost{};  // the kernel side's totals since start
    double trap_ns = 0;       // of the way into the program and out of it
  };
  void Learn(const Work& work);

  // What a level means: one page in so many is sampled; 0: none.
  uint32_t OneInAt(int level) const;
  // What all runs have cost, the way into the program included.
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
  double fault_ns_ = 0;  // of one that is not sampled
  double walk_ns_ = 0;   // of one that is
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_FAULT_KNOB_H_
