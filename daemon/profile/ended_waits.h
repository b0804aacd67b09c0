// How many waits for locks there were, and how long they took, from those that ticks saw. The
// formulas are those of docs/sampling/time.md.
#ifndef PROFD_DAEMON_PROFILE_ENDED_WAITS_H_
#define PROFD_DAEMON_PROFILE_ENDED_WAITS_H_

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "daemon/profile/estimator.h"
#include "daemon/profile/profile.h"

namespace profd {

// Waits of one place, length and end.
struct EndedRow {
  SampleKey wait;  // as of the samples of kWait
  uint32_t bucket = 0;
  uint32_t end = 0;  // enum profd_wait_end
  double waits = 0;  // that they stand for
  double variance = 0;
  // Part of it, as only one wait in several was taken: the weight of all ticks does not share it.
  double of_choice = 0;
};

// Of one thread.
struct EndedThread {
  double time_ns = 0;  // of all waits for the reason
  // Of all rows: the rest of the variance, times the square of the duration.
  double time_variance = 0;
  std::vector<EndedRow> rows;
};

// `waits`: of one thread, as estimated. `samples`: all of it, those of Kind::kEnded are used. Pure.
EndedThread EstimateEnded(const EstimatedThread& waits, std::span<const Sample> samples,
                          int64_t tick_interval_ns);

// A number of waits.
struct WaitEstimate {
  double value = 0;
  double variance = 0;
  double Error() const;
};

// A duration, with its 95 % interval.
struct WaitQuantile {
  int64_t value_ns = 0, low_ns = 0, high_ns = 0;
};

// Waits of any number of threads.
class WaitCount {
 public:
  // `rows`: some of those of `thread`. Once a thread.
  void AddThread(std::span<const EndedRow* const> rows, const EndedThread& thread);

  const WaitEstimate& waits() const { return waits_; }
  // Of these ended at their deadline, and for a signal.
  const WaitEstimate& timeouts() const { return timeouts_; }
  const WaitEstimate& interrupted() const { return interrupted_; }
  // Of all waits it is known how they ended.
  bool ends_known() const { return ends_known_; }
  // What `part` of the waits do not exceed; zeros without any.
  WaitQuantile Quantile(double part) const;

 private:
  struct Bucket {
    double waits = 0, variance = 0;
  };

  // Standard error of the share of waits up to the quantile `part`.
  double ShareErrorAt(double part) const;

  WaitEstimate waits_, timeouts_, interrupted_;
  bool ends_known_ = true;
  std::map<uint32_t, Bucket> buckets_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_PROFILE_ENDED_WAITS_H_
