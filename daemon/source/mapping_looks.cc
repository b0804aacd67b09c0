#include "daemon/source/mapping_looks.h"

#include <algorithm>

namespace profd {

void MappingLooks::OnExec(int64_t now_ns) {
  wanted_ = true;
  if (execed_ns_ == 0) execed_ns_ = now_ns;
  last_exec_ns_ = now_ns;
}

bool MappingLooks::Learn(const FoundModules& found) {
  if (found == found_) return false;
  found_ = found;
  wanted_ = true;
  return true;
}

void MappingLooks::OnDrain(const FoundModules& found, bool more_processes, int64_t now_ns) {
  Learn(found);
  // A child without exec has the mappings of its parent, but a library may have been opened since.
  wanted_ |= more_processes && found_.allocators + found_.libcs != 0;
  // Looking at all processes for each new one would be expensive, and bursts can wait.
  burst_wanted_ |= more_processes && found_.glibcs != 0;
  wanted_ |= burst_wanted_ && now_ns >= next_burst_ns_;
}

void MappingLooks::Looked(bool ok, int64_t began_ns) {
  wanted_ = !ok || (last_exec_ns_ != 0 && last_exec_ns_ > began_ns - kAfterExecNs);
  burst_wanted_ = false;
  next_burst_ns_ = began_ns + kBurstPauseNs;
}

bool MappingLooks::IsEarlyDue(const FoundModules& found, bool reading, int64_t now_ns) {
  if (now_ns < next_early_ns_) return false;
  const bool execed = execed_ns_ != 0 && now_ns >= execed_ns_ + kAfterExecNs;
  const bool learned = !reading && Learn(found);
  return learned || execed;
}

void MappingLooks::LookedEarly(bool ok, int64_t began_ns, int64_t took_ns) {
  Looked(ok, began_ns);
  next_early_ns_ = began_ns + std::max(kLeastPauseNs, took_ns * kRarity);
  // If a program starts slowly, a drain finds what it maps later.
  wanted_ |= execed_ns_ != 0;
  execed_ns_ = last_exec_ns_ > began_ns - kAfterExecNs ? last_exec_ns_ : 0;
}

}  // namespace profd
