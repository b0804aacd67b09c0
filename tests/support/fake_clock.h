// A clock that stands still until a test moves it.
#ifndef PROFD_TESTS_SUPPORT_FAKE_CLOCK_H_
#define PROFD_TESTS_SUPPORT_FAKE_CLOCK_H_

#include <cstdint>

#include "daemon/base/clock.h"

namespace profd {

class FakeClock final : public Clock {
 public:
  int64_t MonotonicNs() const override { return now_ns_; }
  int64_t WallNs() const override { return now_ns_ + WallOffsetNs(); }
  int64_t WallOffsetNs() const override { return 1'700'000'000'000'000'000; }
  int64_t ProcessCpuNs() const override { return cpu_ns_; }
  int64_t ThreadCpuNs() const override { return cpu_ns_; }

  void MoveTo(int64_t now_ns) { now_ns_ = now_ns; }
  // The daemon computes for so long.
  void Compute(int64_t ns) {
    now_ns_ += ns;
    cpu_ns_ += ns;
  }

 private:
  int64_t now_ns_ = 1'000'000'000'000;
  int64_t cpu_ns_ = 0;
};

}  // namespace profd

#endif  // PROFD_TESTS_SUPPORT_FAKE_CLOCK_H_
