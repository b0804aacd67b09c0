// Sums of many slices, made beforehand, so that a long window need not add up each slice of it.
#ifndef PROFD_DAEMON_STORE_SUMS_H_
#define PROFD_DAEMON_STORE_SUMS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "daemon/store/aging.h"
#include "daemon/store/stored_segment.h"

namespace profd {

// Stretches of these lengths have sums: of all slices whose middles lie in the stretch. Each length
// is a multiple of the one before and of those of the slices that are rolled up, except the
// coarsest: a slice that is rolled up has its middle in the same stretch as all its parts.
inline constexpr std::array<int64_t, 3> kSumLengths = {60 * kAgingSecond, 300 * kAgingSecond,
                                                       900 * kAgingSecond};

// The sums of a store, beside its segments. What they stand for stays in the segments: a sum may go
// at any time. Cheap to copy.
class Sums {
 public:
  // Makes the next one if its stretch is complete: nothing that is still open belongs to it. True
  // if there was one to make. Stretches in which more threads exited than an answer shows have
  // none: what is folded when would differ.
  bool MakeNext(const std::deque<SegmentPtr>& sealed);
  // Drops those of which one slice is as long as the sum, now that the segments between these
  // instants have slices of this length.
  void OnRollup(int64_t begin_ns, int64_t end_ns, int64_t slice_ns);
  // Drops those that begin before this instant.
  void OnDrop(int64_t oldest_ns);
  // Drops the oldest of the shortest until the rest take at most so many bytes.
  void Shrink(size_t max_bytes);
  size_t bytes() const { return bytes_; }
  size_t size() const;
  std::vector<SegmentPtr> Segments() const;

  // What to add up instead of these picks, which are next to each other in time order.
  struct Part {
    Pick pick;
    std::vector<Pick> instead;  // what a sum stands for, should it be damaged; else empty
  };
  // No sum reaches beyond `before_ns`.
  std::vector<Part> Replace(const std::vector<Pick>& picks, int64_t before_ns) const;

 private:
  using Tier = std::deque<SegmentPtr>;  // of one length, in time order

  void Make(size_t tier, int64_t stretch, const std::deque<SegmentPtr>& sealed);
  void Erase(Tier* tier, Tier::iterator begin, Tier::iterator end);

  std::array<Tier, kSumLengths.size()> tiers_;
  // The first stretch of each length that was not dealt with yet.
  std::array<int64_t, kSumLengths.size()> next_{};
  size_t bytes_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_STORE_SUMS_H_
