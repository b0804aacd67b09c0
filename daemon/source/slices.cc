#include "daemon/source/slices.h"

#include <algorithm>

namespace profd {

void Slices::SetShare(double share, int64_t now_ns) {
  if (share == share_) return;
  share_ = share;
  next_ns_ = INT64_MAX;
  if (share_ > 0 && share_ < 1) BeginPeriod(now_ns);
}

bool Slices::IsOnAt(int64_t now_ns) {
  if (share_ <= 0 || share_ >= 1) return share_ >= 1;
  if (now_ns >= period_end_ns_) BeginPeriod(now_ns);
  const bool on = now_ns >= slice_ns_ && now_ns < slice_end_ns_;
  next_ns_ = now_ns < slice_ns_ ? slice_ns_ : on ? slice_end_ns_ : period_end_ns_;
  return on;
}

void Slices::BeginPeriod(int64_t now_ns) {
  const int64_t length_ns =
      std::max(kLeastLengthNs, static_cast<int64_t>(static_cast<double>(kLeastPeriodNs) * share_));
  const auto period_ns = static_cast<int64_t>(static_cast<double>(length_ns) / share_);
  period_end_ns_ = now_ns + period_ns;
  slice_ns_ = now_ns + std::uniform_int_distribution<int64_t>(0, period_ns - length_ns)(random_);
  slice_end_ns_ = slice_ns_ + length_ns;
  next_ns_ = slice_ns_;
}

}  // namespace profd
