// What the processes that read debug info give up.
#ifndef PROFD_DAEMON_LINES_SANDBOX_H_
#define PROFD_DAEMON_LINES_SANDBOX_H_

#include <cstdint>

#include "daemon/base/status.h"

namespace profd {

struct WorkerLimits {
  // Private memory; mapped files do not count. 0: no limit.
  uint64_t data_bytes = 256 << 20;
  // CPU time of one request, seconds.
  int cpu_seconds = 10;
  // Allow only the system calls that reading mapped files needs.
  bool filter_calls = true;
};

// For the process that starts workers, and those: no capabilities, no descriptors but `keep`, no
// new files, no core dumps; killed when its parent ends, and by the kernel first when memory is
// short.
absl::Status GiveUpPrivileges(int keep);

// For a worker alone, before it reads anything.
absl::Status EnterSandbox(const WorkerLimits& limits);

}  // namespace profd

#endif  // PROFD_DAEMON_LINES_SANDBOX_H_
