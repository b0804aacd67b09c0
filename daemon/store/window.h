// A window of time.
#ifndef PROFD_DAEMON_STORE_WINDOW_H_
#define PROFD_DAEMON_STORE_WINDOW_H_

#include <cstdint>

namespace profd {

// Half-open, monotonic ns.
struct Window {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_STORE_WINDOW_H_
