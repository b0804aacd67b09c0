// How long disk requests and file syncs took: histograms in powers of two.
#ifndef PROFD_DAEMON_SERVICE_LATENCIES_H_
#define PROFD_DAEMON_SERVICE_LATENCIES_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "bpf/abi.h"

namespace profd {

class Latencies {
 public:
  // So many that took 2^bucket ns or more, and less than twice that.
  void Add(uint32_t bucket, int64_t count) {
    counts_[std::min<size_t>(bucket, counts_.size() - 1)] +=
        static_cast<uint64_t>(std::max<int64_t>(count, 0));
  }
  uint64_t count() const { return std::accumulate(counts_.begin(), counts_.end(), uint64_t{0}); }

  // Fills in the fields that v1::DiskUse and v1::FileSync share.
  template <typename Message>
  void Fill(Message* out) const {
    const auto* const last =
        std::find_if(counts_.rbegin(), counts_.rend(), [](uint64_t n) { return n > 0; }).base();
    out->mutable_latencies()->Add(counts_.begin(), last);
    out->set_p50_ns(Quantile(0.5));
    out->set_p99_ns(Quantile(0.99));
    out->set_max_ns(Quantile(1));
  }

 private:
  static constexpr size_t kLastBucket = 62;  // 2^63 is too much for a time

  // The upper end of the bucket with the one that `part` of all do not take longer than.
  int64_t Quantile(double part) const {
    const auto all = static_cast<double>(count());
    uint64_t sum = 0;
    for (size_t i = 0; i < counts_.size(); i++) {
      sum += counts_[i];
      if (sum > 0 && static_cast<double>(sum) >= part * all) {
        return int64_t{1} << (std::min(i, kLastBucket - 1) + 1);
      }
    }
    return 0;
  }

  std::array<uint64_t, PROFD_DISK_BUCKETS> counts_{};
};

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_LATENCIES_H_
