// What there is of each level, by thread and site: the sum of all changes since profd started.
#ifndef PROFD_DAEMON_STORE_LEVELS_H_
#define PROFD_DAEMON_STORE_LEVELS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "daemon/store/slice.h"

namespace profd {

struct Level {
  int64_t weight = 0;
  int64_t ticks = 0;
  // Kept with it: what made it may be hours old.
  std::shared_ptr<const ThreadInfo> thread;
  std::shared_ptr<const StackTrace> stack;  // null: not known
};

using Levels = absl::flat_hash_map<std::pair<ThreadId, Site>, Level>;

bool HasLevels(const Segment& segment);
// Adds the changes in a raw segment. What becomes 0 goes.
void AddLevels(const Segment& segment, Levels* levels);
// Memory of them all, stacks included.
size_t BytesOf(const Levels& levels);

}  // namespace profd

#endif  // PROFD_DAEMON_STORE_LEVELS_H_
