// How coarse the store's segments become with age, and sooner when it is full.
#ifndef PROFD_DAEMON_STORE_AGING_H_
#define PROFD_DAEMON_STORE_AGING_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "daemon/store/stored_segment.h"

namespace profd {

// What segments of one level are like.
struct AgingLevel {
  int64_t slice_ns;    // length of a slice; 0: a drain
  int64_t segment_ns;  // length of a segment
  int64_t age_ns;      // from which on segments are like that, while there is room
};

inline constexpr int64_t kAgingSecond = 1'000'000'000;
inline constexpr AgingLevel kAgingLevels[] = {
    {0, 10 * kAgingSecond, 0},
    {10 * kAgingSecond, 60 * kAgingSecond, 300 * kAgingSecond},
    {60 * kAgingSecond, 120 * kAgingSecond, 900 * kAgingSecond},
    {300 * kAgingSecond, 300 * kAgingSecond, 3600 * kAgingSecond},
};
inline constexpr int kAgingTop = 3;
// How often the ages may be halved for want of room.
inline constexpr int kMostHaste = 6;

// Neighbours to be made one: [begin, end) of the segments, at a level.
struct RollupStep {
  size_t begin = 0, end = 0;
  int level = 0;
};

// The oldest segments that are finer than their age allows. `haste`: how often ages were halved.
std::optional<RollupStep> NextRollup(const std::deque<SegmentPtr>& segments, int64_t now_ns,
                                     int haste);

}  // namespace profd

#endif  // PROFD_DAEMON_STORE_AGING_H_
