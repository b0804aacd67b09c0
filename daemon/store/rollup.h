// Makes one segment of several.
#ifndef PROFD_DAEMON_STORE_ROLLUP_H_
#define PROFD_DAEMON_STORE_ROLLUP_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>

#include "daemon/store/long_waits.h"
#include "daemon/store/slice.h"
#include "daemon/store/stored_segment.h"

namespace profd {

struct RollupOptions {
  // Slices whose middles lie in the same stretch of this length are added up. 0: none are.
  int64_t slice_ns = 0;
  // Threads that exited are added to their process if there are more of them than this. Processes
  // that exited are then added up by name if there are more of them than kMaxExitedProcesses.
  size_t max_exited = std::numeric_limits<size_t>::max();
  // The segments are drains, and what is made of them is the first segment that is kept. Stacks
  // that no sample names stay: a sample may have come before its stack. Threads of which `latest`
  // says that they exited are counted as such; in older segments they are not, since the segment in
  // which they exited does so.
  bool of_drains = false;
  // The newest that is known of a thread, or null. May be empty.
  std::function<std::shared_ptr<const ThreadInfo>(ThreadId)> latest{};
  // What a module is, or null. Of those that segments name it is known already. May be empty.
  std::function<std::shared_ptr<const ModuleIdentity>(ModuleId)> identify{};
  // Of the segment; null: not known.
  std::shared_ptr<const BootIdentity> boot{};
  // How many long waits each slice keeps.
  LongWaitLimits long_waits = kLongWaitsOfSlice;
};

// `segments` in time order. What cannot be read is counted as kStoreDamaged in the result, which is
// without slices if nothing could be read. Levels stay with their threads.
Segment RollUp(std::span<const SegmentPtr> segments, const RollupOptions& options);
// The same of some of their slices.
Segment RollUp(std::span<const Pick> picks, const RollupOptions& options);

}  // namespace profd

#endif  // PROFD_DAEMON_STORE_ROLLUP_H_
