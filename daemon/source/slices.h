// When a source that is too dear to be on always is on.
#ifndef PROFD_DAEMON_SOURCE_SLICES_H_
#define PROFD_DAEMON_SOURCE_SLICES_H_

#include <cstdint>
#include <random>

namespace profd {

// One slice in each period at a random place of it, so that each instant is as likely to be watched
// as any other and no rhythm of the target is met or missed always. To turn a source on and off
// takes CPU time, and holds its targets up: a period is a second at least, a slice not shorter than
// the least.
class Slices {
 public:
  static constexpr int64_t kLeastPeriodNs = 1'000'000'000;
  static constexpr int64_t kLeastLengthNs = 60'000'000;

  explicit Slices(uint64_t seed) : random_(seed) {}

  // The share of the time to be on from `now_ns` on; 1: always, 0: never.
  void SetShare(double share, int64_t now_ns);
  // Whether it is to be on. Instants must not go back.
  bool IsOnAt(int64_t now_ns);
  // When that changes next; the greatest number when never.
  int64_t next_ns() const { return next_ns_; }

 private:
  void BeginPeriod(int64_t now_ns);

  std::mt19937_64 random_;
  double share_ = 1;
  int64_t period_end_ns_ = 0;
  int64_t slice_ns_ = 0;  // begin of the period's slice
  int64_t slice_end_ns_ = 0;
  int64_t next_ns_ = INT64_MAX;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_SLICES_H_
