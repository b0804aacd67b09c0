#include "daemon/store/aging.h"

namespace profd {
namespace {

// Stretches of this length begin at its multiples.
int64_t StretchOf(int64_t instant_ns, int64_t length_ns) { return instant_ns / length_ns; }

// The level for segments of the stretch that holds this one.
int LevelFor(const StoredSegment& segment, int64_t now_ns, int haste) {
  for (int level = kAgingTop; level > 0; level--) {
    const AgingLevel& like = kAgingLevels[level];
    const int64_t end = (StretchOf(segment.begin_ns(), like.segment_ns) + 1) * like.segment_ns;
    if (now_ns - end >= like.age_ns >> haste) return level;
  }
  return 0;
}

}  // namespace

std::optional<RollupStep> NextRollup(const std::deque<SegmentPtr>& segments, int64_t now_ns,
                                     int haste) {
  for (size_t i = 0; i < segments.size(); i++) {
    const int level = LevelFor(*segments[i], now_ns, haste);
    if (segments[i]->level >= level) continue;
    const int64_t length = kAgingLevels[level].segment_ns;
    const int64_t stretch = StretchOf(segments[i]->begin_ns(), length);
    size_t end = i + 1;
    while (end < segments.size() && segments[end]->level < level &&
           StretchOf(segments[end]->begin_ns(), length) == stretch) {
      end++;
    }
    return RollupStep{i, end, level};
  }
  return std::nullopt;
}

}  // namespace profd
