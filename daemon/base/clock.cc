#include "daemon/base/clock.h"

#include <ctime>

namespace profd {
namespace {

int64_t Read(clockid_t id) {
  timespec ts{};
  clock_gettime(id, &ts);
  return static_cast<int64_t>(ts.tv_sec) * 1'000'000'000 + ts.tv_nsec;
}

}  // namespace

int64_t MonotonicNs() { return Read(CLOCK_MONOTONIC); }
int64_t BootNs() { return Read(CLOCK_BOOTTIME); }
int64_t WallNs() { return Read(CLOCK_REALTIME); }
int64_t ProcessCpuNs() { return Read(CLOCK_PROCESS_CPUTIME_ID); }
int64_t ThreadCpuNs() { return Read(CLOCK_THREAD_CPUTIME_ID); }

int64_t WallOffsetNs() {
  // The monotonic clock is read on both sides of the wall clock, so that a preemption in between
  // costs at most half of itself.
  const int64_t before = MonotonicNs();
  const int64_t wall = WallNs();
  const int64_t after = MonotonicNs();
  return wall - (before + (after - before) / 2);
}

}  // namespace profd
