// Threads that stand in where the kernel refuses one.
#ifndef PROFD_DAEMON_BASE_SPARE_THREADS_H_
#define PROFD_DAEMON_BASE_SPARE_THREADS_H_

#include <cstddef>

#include "daemon/base/status.h"

namespace profd {

// Starts `count` threads that wait. From now on, if the kernel refuses a thread (EAGAIN) to any
// code of this process, libraries included, one of them runs in its place, and pthread_create
// succeeds. As soon as the kernel grants a thread again, those that are missing are started.
// Unavailable: the kernel refuses even these. Does nothing in builds for sanitizers, which replace
// pthread_create themselves.
absl::Status ReserveThreads(size_t count);

// How many threads of those that were reserved run in another's place.
size_t UsedSpareThreads();

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_SPARE_THREADS_H_
