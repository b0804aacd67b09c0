#include "daemon/store/levels.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"

namespace profd {

bool HasLevels(const Segment& segment) {
  return std::any_of(segment.sites.begin(), segment.sites.end(),
                     [](const Site& site) { return IsLevel(site.kind); });
}

void AddLevels(const Segment& segment, Levels* levels) {
  absl::flat_hash_map<StackId, const std::shared_ptr<const StackTrace>*> stacks;
  for (const auto& stack : segment.stacks) stacks.emplace(stack->id, &stack);
  for (const Slice& slice : segment.slices) {
    const SiteSample* sample = slice.samples.data();
    for (const Row& row : slice.rows) {
      for (uint32_t i = 0; i < row.samples; i++, sample++) {
        const Site& site = segment.sites[sample->site];
        if (!IsLevel(site.kind)) continue;
        const auto& thread = segment.threads[row.thread];
        const auto it = levels->try_emplace({thread->id, site}).first;
        Level& level = it->second;
        level.weight = WrappingAdd(level.weight, sample->weight);
        level.ticks = WrappingAdd(level.ticks, sample->ticks);
        // Of a thread that ended long ago only the id may be known by now.
        if (level.thread == nullptr || thread->pid != 0) level.thread = thread;
        if (const auto stack = stacks.find(site.stack); stack != stacks.end()) {
          level.stack = *stack->second;
        }
        if (level.weight == 0 && level.ticks == 0) levels->erase(it);
      }
    }
  }
}

size_t BytesOf(const Levels& levels) {
  size_t bytes = levels.capacity() * (sizeof(Levels::slot_type) + 1);
  absl::flat_hash_set<const void*> counted;
  for (const auto& [key, level] : levels) {
    if (level.stack != nullptr && counted.insert(level.stack.get()).second) {
      bytes += sizeof(StackTrace) + level.stack->frames.capacity() * sizeof(uint64_t);
    }
    if (counted.insert(level.thread.get()).second) bytes += sizeof(ThreadInfo);
  }
  return bytes;
}

}  // namespace profd
