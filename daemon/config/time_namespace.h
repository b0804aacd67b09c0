// Whether this process shares the kernel's monotonic clock.
#ifndef PROFD_DAEMON_CONFIG_TIME_NAMESPACE_H_
#define PROFD_DAEMON_CONFIG_TIME_NAMESPACE_H_

#include <string>

#include "daemon/base/status.h"

namespace profd {

// FailedPrecondition in a time namespace that shifts CLOCK_MONOTONIC: kernel programs read the
// unshifted clock, so no instant of theirs could be compared with ours. `offsets` is a file in the
// format of /proc/PID/timens_offsets; a kernel without time namespaces has none.
absl::Status CheckTimeNamespace(const std::string& offsets = "/proc/self/timens_offsets");

}  // namespace profd

#endif  // PROFD_DAEMON_CONFIG_TIME_NAMESPACE_H_
