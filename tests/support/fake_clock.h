// A clock that stands still until a test moves it.
#ifndef PROFD_TESTS_SUPPORT_FAKE_CLOCK_H_
#define PROFD_TESTS_SUPPORT_FAKE_CLOCK_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "daemon/base/clock.h"

namespace profd {

class FakeClock final : public Clock {
 public:
  int64_t MonotonicNs() const override { return now_ns_; }
  int64_t WallNs() const override { return now_ns_ + WallOffsetNs(); }
  int64_t WallOffsetNs() const override { return 1'700'000'000'000'000'000; }
  int64_t ProcessCpuNs() const override { return cpu_ns_; }
  int64_t ThreadCpuNs() const override { return thread_cpu_ns_[thread_]; }

  void MoveTo(int64_t now_ns) { now_ns_ = now_ns; }
  // What comes is done by the thread of this number.
  void RunThread(size_t thread) { thread_ = thread; }
  // It computes for so long.
  void Compute(int64_t ns) {
    now_ns_ += ns;
    cpu_ns_ += ns;
    thread_cpu_ns_[thread_] += ns;
  }

 private:
  int64_t now_ns_ = 1'000'000'000'000;
  int64_t cpu_ns_ = 0;  // of all threads
  size_t thread_ = 0;
  std::array<int64_t, 2> thread_cpu_ns_{};
};

}  // namespace profd

#endif  // PROFD_TESTS_SUPPORT_FAKE_CLOCK_H_
