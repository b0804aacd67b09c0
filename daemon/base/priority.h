// Priorities of profd's threads. A thread that comes late on a busy machine comes at a special
// moment, and what it observes is biased.
#ifndef PROFD_DAEMON_BASE_PRIORITY_H_
#define PROFD_DAEMON_BASE_PRIORITY_H_

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "spdlog/spdlog.h"

namespace profd {

// Nice values. A tick comes before all else; drains read the ring before it is full.
inline constexpr int kSamplerNice = -11;
inline constexpr int kDrainerNice = -10;
// Bursts begin at a random instant, with all probes attached.
inline constexpr int kBurstNice = -10;

// What sched_setattr takes; glibc of Debian 12 does not declare it.
struct SchedulingAttributes {
  uint32_t size = sizeof(SchedulingAttributes);
  uint32_t policy = SCHED_OTHER;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t slice_ns = 0;
  uint64_t deadline_ns = 0;
  uint64_t period_ns = 0;
};
// The shortest that the kernel takes. Since Linux 6.12 a thread that wakes up preempts those with
// longer slices; else it may wait until they have used theirs. Older kernels ignore it.
inline constexpr uint64_t kSliceNs = 100'000;

// For the calling thread. `late`: what may be late otherwise, for the message.
inline void RaisePriority(int nice, const char* late) {
  const SchedulingAttributes attributes{.nice = nice, .slice_ns = kSliceNs};
  if (syscall(SYS_sched_setattr, 0, &attributes, 0) == 0) return;
  spdlog::warn("{} may come late on a busy machine: cannot raise priority ({}); needs CAP_SYS_NICE",
               late, std::strerror(errno));
}

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_PRIORITY_H_
