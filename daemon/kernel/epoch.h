// Counters in two epochs: programs count in the live one while the daemon empties the other.
#ifndef PROFD_DAEMON_KERNEL_EPOCH_H_
#define PROFD_DAEMON_KERNEL_EPOCH_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "daemon/base/status.h"
#include "daemon/kernel/kernel.h"

struct bpf_map;

namespace profd {

// Changes the live epoch, 0 or 1. Programs that begin after this count in the other one; those that
// run may still be in this one, so it waits until none of `counting` is set. Returns the epoch that
// was live; none if a program does not end within 0.1 s.
std::optional<uint32_t> ChangeEpoch(uint32_t& live, std::span<const uint32_t> counting);

// Changes the epoch, and empties the table of counters that was live. Nothing if a program does not
// end within 0.1 s: what it counted comes with a later call.
absl::StatusOr<std::vector<CounterEntry>> DrainEpoch(const bpf_map* even, const bpf_map* odd,
                                                     uint32_t& live,
                                                     std::span<const uint32_t> counting);

}  // namespace profd

#endif  // PROFD_DAEMON_KERNEL_EPOCH_H_
