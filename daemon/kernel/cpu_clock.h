// Perf events that count the CPU time of a CPU or a thread.
#ifndef PROFD_DAEMON_KERNEL_CPU_CLOCK_H_
#define PROFD_DAEMON_KERNEL_CPU_CLOCK_H_

#include <sys/types.h>

#include <cstdint>

#include "absl/status/statusor.h"
#include "daemon/base/fd.h"

namespace profd {

// Not started yet. Of a CPU (pid -1), or of the calling thread (pid 0, cpu -1). Raises
// CAP_SYS_ADMIN meanwhile, if that is permitted.
absl::StatusOr<UniqueFd> OpenCpuClock(pid_t pid, int cpu, int64_t period_ns);

// Whether it takes CAP_SYS_ADMIN: what else the thread has is not enough. So in Debian's kernels,
// where kernel.perf_event_paranoid is 3, and anywhere without CAP_PERFMON. The calling thread must
// have CAP_SYS_ADMIN permitted, and not effective.
bool CpuClockTakesAdmin();

}  // namespace profd

#endif  // PROFD_DAEMON_KERNEL_CPU_CLOCK_H_
