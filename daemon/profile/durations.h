// How long waits took: a histogram, and what can be told from it.
#ifndef PROFD_DAEMON_PROFILE_DURATIONS_H_
#define PROFD_DAEMON_PROFILE_DURATIONS_H_

#include <array>
#include <cstdint>

#include "bpf/abi.h"

namespace profd {

// Durations in ns, each known by its bucket (bpf/abi/duration.h).
class Durations {
 public:
  // `count` more in a bucket; of others than there are nothing is kept. `longest`: the longest of
  // them, 0: not known. Sums stop at the largest number.
  void Add(uint64_t bucket, uint64_t count, int64_t longest_ns);
  void Add(const Durations& other);

  uint64_t count() const { return count_; }
  const std::array<uint64_t, PROFD_DURATION_BUCKETS>& buckets() const { return buckets_; }
  // What `part` of all do not exceed; 0 without any. From 1 us to 34 s it is at most 20 % off,
  // below that it is 1,024 ns.
  int64_t Quantile(double part) const;
  // The longest; if it is not known itself, the end of its bucket. 0 without any.
  int64_t Longest() const;
  // The longest, if it is known itself, else 0.
  int64_t known_longest() const;

 private:
  size_t LastBucket() const;

  std::array<uint64_t, PROFD_DURATION_BUCKETS> buckets_{};
  std::array<int64_t, PROFD_DURATION_BUCKETS> longest_{};
  uint64_t count_ = 0;
};

// Where a bucket begins, ns. Bucket PROFD_DURATION_BUCKETS would follow the last one.
int64_t DurationBucketBegin(size_t bucket);

}  // namespace profd

#endif  // PROFD_DAEMON_PROFILE_DURATIONS_H_
