#include "daemon/kernel/cpu_clock.h"

#include <linux/perf_event.h>
#include <sys/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "daemon/base/capability.h"

namespace profd {
namespace {

UniqueFd Open(pid_t pid, int cpu, int64_t period_ns) {
  perf_event_attr attributes{};
  attributes.size = sizeof(attributes);
  attributes.type = PERF_TYPE_SOFTWARE;
  attributes.config = PERF_COUNT_SW_CPU_CLOCK;
  attributes.sample_period = static_cast<uint64_t>(period_ns);
  attributes.disabled = 1;
  attributes.exclude_idle = 1;
  return UniqueFd(static_cast<int>(
      syscall(SYS_perf_event_open, &attributes, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC)));
}

bool IsRefused(int error) { return error == EPERM || error == EACCES; }

}  // namespace

absl::StatusOr<UniqueFd> OpenCpuClock(pid_t pid, int cpu, int64_t period_ns) {
  const RaisedCapability raised(CAP_SYS_ADMIN);
  UniqueFd event = Open(pid, cpu, period_ns);
  if (event.ok()) return event;
  const int error = errno;
  const char* advice = IsRefused(error)
                           ? "; needs CAP_PERFMON, on Debian's kernels also CAP_SYS_ADMIN or "
                             "kernel.perf_event_paranoid below 3 when profd starts, and in a "
                             "container a seccomp profile that allows perf_event_open"
                           : "";
  return absl::Status(
      absl::ErrnoToStatusCode(error),
      absl::StrCat("open the clock of CPU ", cpu, ": ", std::strerror(error), advice));
}

bool CpuClockTakesAdmin() {
  constexpr int64_t kAnyPeriodNs = 1'000'000'000;
  // Of any CPU: the first one may be offline.
  if (Open(0, -1, kAnyPeriodNs).ok() || !IsRefused(errno)) return false;
  const RaisedCapability raised(CAP_SYS_ADMIN);
  return Open(0, -1, kAnyPeriodNs).ok();
}

}  // namespace profd
