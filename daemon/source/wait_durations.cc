#include "daemon/source/wait_durations.h"

#include <algorithm>
#include <span>

namespace profd {
namespace {

using Counts = std::array<uint32_t, PROFD_DURATION_BUCKETS>;

// The longest wait in `bucket` since the drain before; 0: not known.
int64_t LongestIn(uint32_t bucket, const profd_durations& place, uint32_t drain) {
  uint64_t longest = 0;
  for (size_t i = 0; i < 2; ++i) {
    if (drain - place.drains[i] <= 1 && profd_duration_bucket(place.longest[i]) == bucket) {
      longest = std::max<uint64_t>(longest, place.longest[i]);
    }
  }
  return static_cast<int64_t>(longest);
}

// Counts only grow; 32 bits of them are kept.
bool HasShrunk(const Counts& before, std::span<const uint32_t> now) {
  for (size_t i = 0; i < before.size(); ++i) {
    if (static_cast<int32_t>(now[i] - before[i]) < 0) return true;
  }
  return false;
}

}  // namespace

void WaitDurations::Apply(const profd_thread_record& record, std::vector<Sample>* samples) {
  if (record.durations_torn != 0) return;
  std::vector<Bucket> buckets;
  size_t known = 0;  // of buckets_
  for (uint8_t number = 0; number < PROFD_DURATION_PLACES; ++number) {
    const profd_durations& place = record.durations[number];
    Counts before{};
    for (; known < buckets_.size() && buckets_[known].place == number; ++known) {
      before[buckets_[known].number] = buckets_[known].count;
    }
    const bool used = number == 0 || (place.reason != 0 && place.reason < kReasonCount);
    if (!used) continue;
    const std::span<const uint32_t> counts(place.counts);
    // The place may have been given to another reason, and back.
    if (reasons_[number] != place.reason || HasShrunk(before, counts)) before.fill(0);
    reasons_[number] = static_cast<uint8_t>(place.reason);
    bool top = true;
    const size_t first = samples->size();
    for (uint8_t i = PROFD_DURATION_BUCKETS; i-- > 0;) {
      const uint32_t more = counts[i] - before[i];
      if (more == 0) continue;
      samples->push_back({.key = {.thread = ThreadId{record.thread_id},
                                  .argument = i,
                                  .reason = static_cast<Reason>(place.reason),
                                  .kind = Kind::kDuration},
                          .weight = top ? LongestIn(i, place, record.duration_drain) : 0,
                          .ticks = more});
      top = false;
    }
    std::reverse(samples->begin() + static_cast<std::ptrdiff_t>(first), samples->end());
    for (size_t i = 0; i < PROFD_DURATION_BUCKETS; ++i) {
      if (counts[i] == 0) continue;
      buckets.push_back({.place = number, .number = static_cast<uint8_t>(i), .count = counts[i]});
    }
  }
  buckets.shrink_to_fit();
  buckets_ = std::move(buckets);
}

}  // namespace profd
