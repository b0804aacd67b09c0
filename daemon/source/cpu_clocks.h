// The clocks that interrupt CPUs to see what they run: which CPUs have one, and its period.
#ifndef PROFD_DAEMON_SOURCE_CPU_CLOCKS_H_
#define PROFD_DAEMON_SOURCE_CPU_CLOCKS_H_

#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/kernel/kernel.h"

namespace profd {

// The period of each clock is drawn anew at random instants, and with it its phase. So the instants
// of samples are independent of what programs do, also of programs with a period of their own.
class CpuClocks {
 public:
  // Both must outlive this. `seed`: of periods and instants.
  CpuClocks(CpuKernel* kernel, const Clock* clock, uint64_t seed)
      : kernel_(kernel), clock_(clock), random_(seed) {}

  // The mean period from now on, ns; 0: no clock. Errors leave some or all CPUs without a clock.
  absl::Status SetInterval(int64_t interval_ns);
  // Draws periods, and looks which CPUs are online, if that is due.
  absl::Status Step();
  int64_t next_ns() const { return next_ns_; }

  int64_t interval_ns() const { return interval_ns_; }
  size_t cpus() const { return clocked_.size(); }

 private:
  absl::Status Draw();
  int64_t Around(int64_t mean, double spread);

  CpuKernel* const kernel_;
  const Clock* const clock_;
  std::mt19937_64 random_;
  int64_t interval_ns_ = 0;
  int64_t next_ns_ = INT64_MAX;
  std::set<uint32_t> clocked_;  // CPUs with a clock
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_CPU_CLOCKS_H_
