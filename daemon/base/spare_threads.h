// Threads that stand in where the kernel refuses one.
#ifndef PROFD_DAEMON_BASE_SPARE_THREADS_H_
#define PROFD_DAEMON_BASE_SPARE_THREADS_H_

#include <cstddef>

#include "daemon/base/status.h"

namespace profd {

// Starts `count` threads that wait. From now on, if the kernel refuses a thread (EAGAIN) to any
// code of this process, libraries included, one of them runs in its place, and pthread_create
// succeeds. When it has ended, the kernel has room for one more. Unavailable: the kernel refuses
// even these. Does nothing in builds for sanitizers, which replace pthread_create themselves.
absl::Status ReserveThreads(size_t count);

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_SPARE_THREADS_H_
