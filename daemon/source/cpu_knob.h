// The knob of on-CPU samples.
#ifndef PROFD_DAEMON_SOURCE_CPU_KNOB_H_
#define PROFD_DAEMON_SOURCE_CPU_KNOB_H_

#include <cstdint>
#include <string>

#include "bpf/abi.h"
#include "daemon/govern/knob.h"

namespace profd {

// Samples less often at each level, and not at all at the last.
class CpuKnob final : public Knob {
 public:
  // `interval_ns`: CPU time between two samples at full detail.
  explicit CpuKnob(int64_t interval_ns) : interval_ns_(interval_ns) {}

  struct Work {
    double seconds = 0;
    int64_t cpu_ns = 0;       // that targets used in this time
    profd_cpu_cost cost{};    // totals since start
    double interrupt_ns = 0;  // time to enter and leave the program
  };
  void Learn(const Work& work);

  // At this level a sample stands for so much CPU time; 0: there are none.
  int64_t IntervalAt(int level) const;
  // Total time of all runs, including entering and leaving the program.
  static double InPathNs(const profd_cpu_cost& cost, double interrupt_ns);

  const char* name() const override { return "cpu"; }
  Payer payer() const override { return Payer::kTarget; }
  int levels() const override;
  int sampled_levels() const override { return levels() - 1; }
  double CostAt(int level) const override;
  std::string GivenUpAt(int level) const override;

 private:
  const int64_t interval_ns_;
  profd_cpu_cost last_{};
  double cpu_share_ = 0;  // of one CPU, that targets used
  double sample_ns_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_CPU_KNOB_H_
