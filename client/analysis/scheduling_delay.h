// Scheduling delay on chains of waits: time on the run queue, a group's own and that of the threads
// that it waits for. docs/sampling/analysis.md has the formulas.
#ifndef PROFD_CLIENT_ANALYSIS_SCHEDULING_DELAY_H_
#define PROFD_CLIENT_ANALYSIS_SCHEDULING_DELAY_H_

#include <cstdint>
#include <vector>

#include "client/analysis/chains.h"

namespace profctl {

struct Delay {
  double time_ns = 0;
  double error_ns = 0;  // standard error

  // Delays of one window share what they are estimated from: their errors go together.
  void Add(double more_ns, double more_error_ns) {
    time_ns += more_ns;
    error_ns += more_error_ns;
  }
};

// That of one chain length.
struct InheritedDelay {
  int wakers = 0;  // from the waiter to who waits for a CPU; at least 1
  Delay delay;
};

// That of one group at one chain length.
struct QueuedGroup {
  uint32_t group = 0;
  int wakers = 0;
  Delay delay;
};

// Parts of Chains::waits_ns: `all`, `unresolved_ns` and `rest_ns` sum to it.
struct SchedulingDelay {
  Delay all;  // own and inherited
  Delay own;
  std::vector<InheritedDelay> inherited;  // the fewest wakers first
  std::vector<QueuedGroup> queued;        // who is behind `inherited`, the longest first
  double unresolved_ns = 0;               // may be delay, too: unknown, not watched, not followed
  double rest_ns = 0;                     // something else: a CPU that runs, an interrupt
};

// Pure.
SchedulingDelay FindSchedulingDelay(const Chains& chains);

}  // namespace profctl

#endif  // PROFD_CLIENT_ANALYSIS_SCHEDULING_DELAY_H_
