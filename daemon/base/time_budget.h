// A time that is not to be exceeded.
#ifndef PROFD_DAEMON_BASE_TIME_BUDGET_H_
#define PROFD_DAEMON_BASE_TIME_BUDGET_H_

#include <cstdint>

#include "daemon/base/clock.h"

namespace profd {

// CPU time of the thread that asks, and at most twenty times as much by the clock: the machine may
// be busy.
class TimeBudget {
 public:
  // `clock` must outlive this.
  TimeBudget(int64_t cpu_ns, const Clock* clock)
      : clock_(clock),
        cpu_end_ns_(clock->ThreadCpuNs() + cpu_ns),
        end_ns_(clock->MonotonicNs() + 20 * cpu_ns) {}

  // False from the end on. Cheap: each 16th call reads the time.
  bool Left() { return calls_++ % 16 == 0 ? LeftNow() : left_; }
  // The same by the time of now, before what takes long.
  bool LeftNow() {
    left_ = left_ && clock_->ThreadCpuNs() < cpu_end_ns_ && clock_->MonotonicNs() < end_ns_;
    return left_;
  }

 private:
  const Clock* const clock_;
  const int64_t cpu_end_ns_, end_ns_;
  uint32_t calls_ = 0;
  bool left_ = true;
};

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_TIME_BUDGET_H_
