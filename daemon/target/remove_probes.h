// Taking many probes out at a time.
#ifndef PROFD_DAEMON_TARGET_REMOVE_PROBES_H_
#define PROFD_DAEMON_TARGET_REMOVE_PROBES_H_

#include <cstddef>
#include <vector>

#include "daemon/kernel/kernel.h"

namespace profd {

// Returns when all are out. The kernel waits for all programs at each link of theirs, so `at_once` > 0 threads,
// the caller's among them, take them out side by side: that takes as long as one.
void RemoveProbes(std::vector<Probe> probes, size_t at_once);

}  // namespace profd

#endif  // PROFD_DAEMON_TARGET_REMOVE_PROBES_H_
