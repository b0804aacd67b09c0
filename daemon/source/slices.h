// When a source is on that is too expensive to be always on.
#ifndef PROFD_DAEMON_SOURCE_SLICES_H_
#define PROFD_DAEMON_SOURCE_SLICES_H_

#include <cstdint>
#include <random>

namespace profd {

// One slice per period, at a random place in it. So each instant is equally likely to be watched,
// and no rhythm of the target is always hit or missed. Turning a source on and off takes CPU time
// and holds up its targets, so periods and slices have a least length.
class Slices {
 public:
  static constexpr int64_t kLeastPeriodNs = 1'000'000'000;
  static constexpr int64_t kLeastLengthNs = 60'000'000;

  explicit Slices(uint64_t seed) : random_(seed) {}

  // The share of the time to be on, from `now_ns`; 1: always, 0: never.
  void SetShare(double share, int64_t now_ns);
  // Whether to be on at `now_ns`, which must not decrease between calls.
  bool IsOnAt(int64_t now_ns);
  // The next change; INT64_MAX: never.
  int64_t next_ns() const { return next_ns_; }

 private:
  void BeginPeriod(int64_t now_ns);

  std::mt19937_64 random_;
  double share_ = 1;
  int64_t period_end_ns_ = 0;
  int64_t slice_ns_ = 0;  // start of the period's slice
  int64_t slice_end_ns_ = 0;
  int64_t next_ns_ = INT64_MAX;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_SLICES_H_
