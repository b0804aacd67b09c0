// Priorities of profd's threads. A thread that comes late on a busy machine comes at a special
// moment, and what it observes is biased.
#ifndef PROFD_DAEMON_BASE_PRIORITY_H_
#define PROFD_DAEMON_BASE_PRIORITY_H_

#include <sys/resource.h>

#include <cerrno>
#include <cstring>

#include "daemon/base/log.h"

namespace profd {

// Nice values. A tick comes before all else; drains read the ring before it is full.
inline constexpr int kSamplerNice = -11;
inline constexpr int kDrainerNice = -10;
// Bursts begin at a random instant, with all probes attached.
inline constexpr int kBurstNice = -10;

// The lowest real-time priority: any other real-time thread comes first.
inline constexpr int kRealTimePriority = 1;

// For the calling thread. `late`: what may be late otherwise, for the message.
inline void RaisePriority(int nice, const char* late) {
  if (setpriority(PRIO_PROCESS, 0, nice) == 0) return;
  LogWarning(late, " may come late on a busy machine: cannot raise priority (",
             std::strerror(errno), "); needs CAP_SYS_NICE");
}

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_PRIORITY_H_
