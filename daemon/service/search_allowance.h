// How much CPU time searches in /proc may take, over all answers.
#ifndef PROFD_DAEMON_SERVICE_SEARCH_ALLOWANCE_H_
#define PROFD_DAEMON_SERVICE_SEARCH_ALLOWANCE_H_

#include <algorithm>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "daemon/base/clock.h"

namespace profd {

// An answer gets 50 ms as long as there are savings: 250 ms at most, which grow by 1 % of a CPU. So
// a table that is asked for every second costs no more than that. Thread-safe.
class SearchAllowance {
 public:
  static constexpr int64_t kMostNs = 50'000'000;
  static constexpr int64_t kMostSavedNs = 5 * kMostNs;
  static constexpr int64_t kShare = 100;  // one of so many parts of the time

  // `clock` must outlive this.
  explicit SearchAllowance(const Clock* clock = SystemClock())
      : clock_(clock), since_ns_(clock->MonotonicNs()) {}

  // What a search that begins now may take, ns; 0 or less: nothing.
  int64_t Left() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const int64_t now = clock_->MonotonicNs();
    saved_ns_ = std::min(saved_ns_ + (now - since_ns_) / kShare, kMostSavedNs);
    since_ns_ = now;
    return std::min(saved_ns_, kMostNs);
  }
  void Took(int64_t cpu_ns) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    // One that took too long does not silence later ones for long.
    saved_ns_ = std::max(saved_ns_ - cpu_ns, -kMostNs);
  }

 private:
  const Clock* const clock_;
  absl::Mutex mutex_;
  int64_t since_ns_ ABSL_GUARDED_BY(mutex_);
  int64_t saved_ns_ ABSL_GUARDED_BY(mutex_) = kMostSavedNs;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_SEARCH_ALLOWANCE_H_
