#include "daemon/profile/durations.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace profd {
namespace {

uint64_t Sum(uint64_t a, uint64_t b) {
  return b > std::numeric_limits<uint64_t>::max() - a ? std::numeric_limits<uint64_t>::max()
                                                      : a + b;
}

}  // namespace

int64_t DurationBucketBegin(size_t bucket) {
  if (bucket == 0) return 0;
  const size_t octave = PROFD_DURATION_LEAST_BITS + (bucket - 1) / 2;
  const int64_t begin = int64_t{1} << octave;
  return (bucket - 1) % 2 == 0 ? begin : begin + begin / 2;
}

void Durations::Add(uint64_t bucket, uint64_t count, int64_t longest_ns) {
  if (bucket >= PROFD_DURATION_BUCKETS || count == 0) return;
  buckets_[bucket] = Sum(buckets_[bucket], count);
  longest_[bucket] = std::max(longest_[bucket], longest_ns);
  count_ = Sum(count_, count);
}

void Durations::Add(const Durations& other) {
  for (size_t i = 0; i < buckets_.size(); ++i) Add(i, other.buckets_[i], other.longest_[i]);
}

size_t Durations::LastBucket() const {
  const auto last =
      std::find_if(buckets_.rbegin(), buckets_.rend(), [](uint64_t count) { return count > 0; });
  return static_cast<size_t>(buckets_.rend() - last) - 1;
}

int64_t Durations::known_longest() const { return count_ == 0 ? 0 : longest_[LastBucket()]; }

int64_t Durations::Longest() const {
  if (count_ == 0) return 0;
  const size_t last = LastBucket();
  return longest_[last] > 0 ? longest_[last] : DurationBucketBegin(last + 1);
}

// The value of a bucket whose relative distance from both of its ends is the same.
int64_t Durations::Quantile(double part) const {
  if (count_ == 0) return 0;
  const double rank = std::ceil(part * static_cast<double>(count_));
  const size_t last = LastBucket();
  double sum = 0;
  size_t bucket = 0;
  for (; bucket < last; ++bucket) {
    sum += static_cast<double>(buckets_[bucket]);
    if (sum > 0 && sum >= rank) break;
  }
  if (rank >= static_cast<double>(count_)) return Longest();
  const auto begin = static_cast<double>(DurationBucketBegin(bucket));
  const int64_t end = bucket == last ? Longest() : DurationBucketBegin(bucket + 1);
  if (begin == 0) return end;
  const auto to = static_cast<double>(end);
  return static_cast<int64_t>(2 * begin * to / (begin + to));
}

}  // namespace profd
