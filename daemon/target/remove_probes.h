// Taking many probes out at a time.
#ifndef PROFD_DAEMON_TARGET_REMOVE_PROBES_H_
#define PROFD_DAEMON_TARGET_REMOVE_PROBES_H_

#include <cstddef>
#include <map>
#include <vector>

#include "absl/functional/function_ref.h"
#include "daemon/kernel/kernel.h"
#include "daemon/profile/profile.h"

namespace profd {

// Returns when all are out. The kernel waits for all programs at each link of theirs, so `at_once`
// > 0 threads, the caller's among them, take them out side by side: that takes as long as one.
void RemoveProbes(std::vector<Probe> probes, size_t at_once);

// Guards that stay while probes in a module come and go: each time would put up a new one.
using StandingGuards = std::map<ModuleId, ProbeGuard>;

// Takes the guards of modules that are not used any more out of `guards`. They go with what is
// returned, and the kernel takes its time for that.
std::vector<ProbeGuard> TakeUnused(StandingGuards& guards,
                                   absl::FunctionRef<bool(ModuleId module)> is_used);

}  // namespace profd

#endif  // PROFD_DAEMON_TARGET_REMOVE_PROBES_H_
