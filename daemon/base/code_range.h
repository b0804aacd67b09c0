// Where code lies in memory.
#ifndef PROFD_DAEMON_BASE_CODE_RANGE_H_
#define PROFD_DAEMON_BASE_CODE_RANGE_H_

#include <cstdint>

namespace profd {

// Addresses, [begin, end). Both 0: not known.
struct CodeRange {
  uint64_t begin = 0, end = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_CODE_RANGE_H_
