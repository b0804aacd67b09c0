// Turns what a drain brings into a segment of one slice.
#ifndef PROFD_DAEMON_STORE_INTAKE_H_
#define PROFD_DAEMON_STORE_INTAKE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/store/recent_table.h"
#include "daemon/store/slice.h"
#include "daemon/store/stored_segment.h"

namespace profd {

// Remembers threads and stacks, which a drain tells once and names later. Not thread-safe.
class Intake {
 public:
  SegmentPtr Take(ProfileDelta delta);

  std::shared_ptr<const ThreadInfo> Thread(ThreadId id) const { return threads_.Find(id); }
  // Forgets what was last named before these instants.
  void Forget(int64_t threads_before_ns, int64_t stacks_before_ns);
  // Forgets what was named longest ago until what is left takes at most so many bytes.
  void Shrink(size_t max_bytes);
  size_t bytes() const { return threads_.bytes() + stacks_.bytes(); }
  size_t threads() const { return threads_.size(); }
  // Samples whose stacks were not known.
  uint64_t unknown_stacks() const { return unknown_stacks_; }

 private:
  class Builder;

  RecentTable<ThreadId, ThreadInfo> threads_;
  RecentTable<StackId, StackTrace> stacks_;
  uint64_t unknown_stacks_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_STORE_INTAKE_H_
