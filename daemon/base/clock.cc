#include "daemon/base/clock.h"

#include <ctime>

namespace profd {
namespace {

int64_t Read(clockid_t id) {
  timespec ts{};
  clock_gettime(id, &ts);
  return static_cast<int64_t>(ts.tv_sec) * 1'000'000'000 + ts.tv_nsec;
}

class MachineClock final : public Clock {
 public:
  int64_t MonotonicNs() const override { return profd::MonotonicNs(); }
  int64_t WallNs() const override { return profd::WallNs(); }
  int64_t WallOffsetNs() const override { return profd::WallOffsetNs(); }
  int64_t ProcessCpuNs() const override { return profd::ProcessCpuNs(); }
  int64_t ThreadCpuNs() const override { return profd::ThreadCpuNs(); }
};

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

const Clock* SystemClock() {
  static const MachineClock clock;
  return &clock;
}

}  // namespace profd
