// Bursts that are over and were not taken yet.
#ifndef PROFD_DAEMON_SOURCE_BURST_RESULTS_H_
#define PROFD_DAEMON_SOURCE_BURST_RESULTS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "daemon/kernel/kernel.h"
#include "daemon/probes/trap.h"

namespace profd {

// A burst, and what was counted in it.
struct BurstResult {
  int64_t length_ns = 0;
  int64_t span_ns = 0;        // the time that it stands for
  int64_t skipped_ns = 0;     // the part of it that has no burst because bursts came late
  int64_t standing_ns = 0;    // from the first probe in to the last one out
  double process_weight = 1;  // processes that there were, by those that were traced
  Traps traps;                // as they were about then, where a call was met
  MallocCounts counts;

  bool MetCalls() const { return !counts.threads.empty() || !counts.samples.empty(); }
};

// The oldest go when there are too many. Not thread-safe.
class BurstResults {
 public:
  static constexpr size_t kMost = 8;

  void Add(BurstResult result);
  // For one slice, the oldest first. One of them at most met calls: the estimators need the sum of
  // the squares of bursts, which a slice of one has by itself.
  std::vector<BurstResult> TakeSlice();
  // They are to be taken: more than one slice is needed for them, or there are many.
  bool ArePlenty() const;

 private:
  std::deque<BurstResult> results_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_BURST_RESULTS_H_
