// Counters of the kernel programs as samples.
#ifndef PROFD_DAEMON_SOURCE_SAMPLES_H_
#define PROFD_DAEMON_SOURCE_SAMPLES_H_

#include <span>
#include <vector>

#include "daemon/kernel/kernel.h"
#include "daemon/profile/profile.h"

namespace profd {

// Adds what was counted by thread and stack to `delta`.
void AddSamples(std::span<const CounterEntry> counters, ProfileDelta& delta);
// The same; returns why there is nothing to add.
absl::Status AddSamples(const absl::StatusOr<std::vector<CounterEntry>>& counters,
                        ProfileDelta& delta);

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_SAMPLES_H_
