// Lists of CPUs as the kernel writes them.
#ifndef PROFD_DAEMON_BASE_CPU_LIST_H_
#define PROFD_DAEMON_BASE_CPU_LIST_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "daemon/base/status.h"

namespace profd {

// The CPUs of a list such as "0-3,8,10-11", in ascending order. InvalidArgument for anything else,
// and for a CPU that is not below `limit`.
absl::StatusOr<std::vector<uint32_t>> ParseCpuList(std::string_view text, uint32_t limit);

// The CPUs that are online now.
absl::StatusOr<std::vector<uint32_t>> OnlineCpus(uint32_t limit);

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_CPU_LIST_H_
