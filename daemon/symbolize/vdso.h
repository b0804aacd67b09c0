// The vDSO: code that the kernel maps into every process. It has no file.
#ifndef PROFD_DAEMON_SYMBOLIZE_VDSO_H_
#define PROFD_DAEMON_SYMBOLIZE_VDSO_H_

#include <string>
#include <string_view>

#include "daemon/base/fd.h"
#include "daemon/base/status.h"

namespace profd {

// Its path in /proc/PID/maps.
inline constexpr std::string_view kVdsoPath = "[vdso]";

// This process's vDSO as a file in memory. All 64-bit processes have the same. FailedPrecondition
// if the kernel maps none.
absl::StatusOr<UniqueFd> CopyVdso();

// Each function that the vDSO exports has two names: "clock_gettime" becomes
// "__vdso_clock_gettime", which tells it from libc's.
std::string VdsoFunction(const std::string& name);

}  // namespace profd

#endif  // PROFD_DAEMON_SYMBOLIZE_VDSO_H_
