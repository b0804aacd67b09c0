// Stretches of time.
#ifndef PROFD_DAEMON_STORE_SPANS_H_
#define PROFD_DAEMON_STORE_SPANS_H_

#include <cstdint>

#include "daemon/store/window.h"

namespace profd {

inline constexpr int64_t kSecondNs = 1'000'000'000;

inline int64_t LengthOf(Window span) { return span.end_ns - span.begin_ns; }
inline int64_t MiddleOf(Window span) { return span.begin_ns + LengthOf(span) / 2; }
inline bool MiddleInside(Window span, Window window) {
  const int64_t middle = MiddleOf(span);
  return window.begin_ns <= middle && middle < window.end_ns;
}
inline int64_t CeilSeconds(int64_t ns) { return (ns + kSecondNs - 1) / kSecondNs; }

}  // namespace profd

#endif  // PROFD_DAEMON_STORE_SPANS_H_
