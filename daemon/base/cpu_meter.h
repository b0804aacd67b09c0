// Divides the CPU time of one thread by what it was spent on.
#ifndef PROFD_DAEMON_BASE_CPU_METER_H_
#define PROFD_DAEMON_BASE_CPU_METER_H_

#include <cstdint>

#include "daemon/base/clock.h"

namespace profd {

// Used by one thread alone.
class CpuMeter {
 public:
  // `clock` must outlive this.
  explicit CpuMeter(const Clock* clock) : clock_(clock) {}

  // What this thread used so far is nobody's.
  void Begin() { charged_ns_ = clock_->ThreadCpuNs(); }
  // Adds what this thread used since the last call of either to `sum`, and says how much.
  int64_t Charge(int64_t* sum) {
    const int64_t cpu = clock_->ThreadCpuNs();
    const int64_t used = cpu - charged_ns_;
    *sum += used;
    charged_ns_ = cpu;
    return used;
  }

 private:
  const Clock* const clock_;
  int64_t charged_ns_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_CPU_METER_H_
