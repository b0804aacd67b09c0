// Time: CLOCK_MONOTONIC in arithmetic, wall clock at the edges, one converter.
#ifndef PROFD_DAEMON_BASE_CLOCK_H_
#define PROFD_DAEMON_BASE_CLOCK_H_

#include <cstdint>

namespace profd {

// CLOCK_MONOTONIC, ns.
int64_t MonotonicNs();
// CLOCK_BOOTTIME, ns: monotonic, and goes on while the machine sleeps.
int64_t BootNs();
// CLOCK_REALTIME, ns since the Unix epoch.
int64_t WallNs();
// CPU time of this process / of the calling thread, ns.
int64_t ProcessCpuNs();
int64_t ThreadCpuNs();

// Wall clock minus monotonic, ns, read now: wall = monotonic + WallOffsetNs().
int64_t WallOffsetNs();

// The same for code that tests drive through hours in milliseconds. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t MonotonicNs() const = 0;
  virtual int64_t WallNs() const = 0;
  virtual int64_t WallOffsetNs() const = 0;
  virtual int64_t ProcessCpuNs() const = 0;
  virtual int64_t ThreadCpuNs() const = 0;
};

// The machine's; lives for ever.
const Clock* SystemClock();

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_CLOCK_H_
