#include "daemon/source/burst_results.h"

#include <utility>

#include "absl/algorithm/container.h"

namespace profd {

void BurstResults::Add(BurstResult result) {
  if (results_.size() == kMost) results_.pop_front();
  results_.push_back(std::move(result));
}

std::vector<BurstResult> BurstResults::TakeSlice() {
  std::vector<BurstResult> slice;
  bool met = false;
  while (!results_.empty() && !(met && results_.front().MetCalls())) {
    met |= results_.front().MetCalls();
    slice.push_back(std::move(results_.front()));
    results_.pop_front();
  }
  return slice;
}

bool BurstResults::ArePlenty() const {
  // In time, before the oldest goes.
  if (results_.size() >= kMost / 2) return true;
  return absl::c_count_if(results_, [](const auto& result) { return result.MetCalls(); }) > 1;
}

}  // namespace profd
