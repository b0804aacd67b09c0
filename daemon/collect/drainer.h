// The drain: takes what was found out of the kernel and hands it to the store.
#ifndef PROFD_DAEMON_COLLECT_DRAINER_H_
#define PROFD_DAEMON_COLLECT_DRAINER_H_

#include <cstdint>
#include <vector>

#include "daemon/collect/publisher.h"
#include "daemon/collect/steering.h"
#include "daemon/source/context.h"
#include "daemon/source/source_list.h"
#include "daemon/store/store.h"

namespace profd {

// Not thread-safe.
class Drainer {
 public:
  // All must outlive this.
  Drainer(const SourceContext& context, const SourceList* sources, Steering* steering, Store* store)
      : context_(context), sources_(sources), steering_(steering), store_(store) {}

  // The first drain is of what comes from `begin_ns` on, monotonic.
  void Begin(int64_t begin_ns) { drained_ns_ = reached_ns_ = begin_ns; }
  // Takes everything out that was found by now.
  ProfileDelta Drain();
  // Hands it to the store.
  absl::Status HandOver(ProfileDelta delta);
  // Tells all sources of the targets' processes.
  void Follow();
  // Something failed that was to be part of a drain, outside of one.
  void CountFailure(const absl::Status& status) { (void)Expect(status); }

  const Totals& totals() const { return totals_; }
  // Where the last slice ended.
  int64_t drained_ns() const { return drained_ns_; }
  // All that happened until then was taken out: the instant at which the last drain began. What a
  // thread did after it was read, and before the slice ended, is of the next slice.
  int64_t reached_ns() const { return reached_ns_; }
  int64_t cpu_ns() const { return cpu_ns_; }

 private:
  // Counts and logs a step that failed. True when it did not.
  bool Expect(const absl::Status& status);
  // Of walks in the threads' own context, which the sources with probes share.
  void DrainOwnCounters(ProfileDelta& delta);
  void LookAround();
  void AddLosses(ProfileDelta& delta);
  void AddCosts(ProfileDelta& delta);
  std::vector<TargetActivity> ActivityIn(const ProfileDelta& delta) const;

  const SourceContext context_;
  const SourceList* const sources_;
  Steering* const steering_;
  Store* const store_;
  Totals totals_;
  // As of the last drain.
  LossCounts kernel_losses_{};
  CollectorCost cost_;
  uint64_t failures_ = 0;
  int64_t drained_ns_ = 0, reached_ns_ = 0;
  int64_t next_trim_ns_ = 0;
  int64_t cpu_ns_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_COLLECT_DRAINER_H_
