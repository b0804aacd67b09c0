// Sums of numbers from outside may pass 2^63: these wrap instead of being undefined.
#ifndef PROFD_DAEMON_BASE_WRAPPING_H_
#define PROFD_DAEMON_BASE_WRAPPING_H_

#include <cstdint>

namespace profd {

inline int64_t WrappingAdd(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t WrappingSubtract(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_WRAPPING_H_
