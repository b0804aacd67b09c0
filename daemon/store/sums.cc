#include "daemon/store/sums.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "daemon/store/folding.h"
#include "daemon/store/long_waits.h"
#include "daemon/store/rollup.h"
#include "daemon/store/spans.h"

namespace profd {
namespace {

// A sum of fewer slices would save little. Where drains are rare it takes long: there are thousands
// of threads.
constexpr size_t kLeastSlices = 8;

int64_t StretchOf(Window span, int64_t length_ns) { return MiddleOf(span) / length_ns; }

Window SpanOf(const SegmentPtr& sum) { return sum->spans.front(); }

// A slice and where it is.
struct Place {
  const Pick* pick;
  size_t index;
  Window span() const { return pick->segment->spans[index]; }
};

// The places [begin, end) as picks.
std::vector<Pick> PicksOf(const std::vector<Place>& places, size_t begin, size_t end) {
  std::vector<Pick> picks;
  for (size_t i = begin; i < end; i++) {
    const Place& place = places[i];
    if (picks.empty() || picks.back().segment != place.pick->segment) {
      picks.push_back({place.pick->segment, place.index, place.index});
    }
    picks.back().end = place.index + 1;
  }
  return picks;
}

}  // namespace

size_t Sums::size() const {
  size_t size = 0;
  for (const Tier& tier : tiers_) size += tier.size();
  return size;
}

std::vector<SegmentPtr> Sums::Segments() const {
  std::vector<SegmentPtr> all;
  for (const Tier& tier : tiers_) all.insert(all.end(), tier.begin(), tier.end());
  return all;
}

bool Sums::MakeNext(const std::deque<SegmentPtr>& sealed) {
  if (sealed.empty()) return false;
  for (size_t tier = 0; tier < tiers_.size(); tier++) {
    const int64_t length = kSumLengths[tier];
    // Stretches without slices are passed over.
    const auto segment = std::find_if(sealed.begin(), sealed.end(), [&](const SegmentPtr& s) {
      return StretchOf(s->spans.back(), length) >= next_[tier];
    });
    if (segment == sealed.end()) continue;
    const auto& spans = (*segment)->spans;
    const auto slice = std::find_if(spans.begin(), spans.end(), [&](Window span) {
      return StretchOf(span, length) >= next_[tier];
    });
    const int64_t stretch = StretchOf(*slice, length);
    if (sealed.back()->end_ns() < (stretch + 1) * length) continue;
    next_[tier] = stretch + 1;
    Make(tier, stretch, sealed);
    return true;
  }
  return false;
}

void Sums::Make(size_t tier, int64_t stretch, const std::deque<SegmentPtr>& sealed) {
  const int64_t length = kSumLengths[tier];
  std::vector<Pick> picks;
  for (const SegmentPtr& segment : sealed) {
    const auto& spans = segment->spans;
    const auto inside = [&](Window span) { return StretchOf(span, length) == stretch; };
    const auto begin = std::find_if(spans.begin(), spans.end(), inside);
    const auto end = std::find_if_not(begin, spans.end(), inside);
    if (begin == end) continue;
    picks.push_back({segment, static_cast<size_t>(begin - spans.begin()),
                     static_cast<size_t>(end - spans.begin())});
  }
  size_t slices = 0;
  for (const Pick& pick : picks) slices += pick.end - pick.begin;
  if (slices < kLeastSlices) return;
  // Of shorter sums, where there are any: they are fewer than the slices.
  std::vector<Pick> parts;
  for (const Part& part : Replace(picks, std::numeric_limits<int64_t>::max())) {
    parts.push_back(part.pick);
  }
  const Segment sum = RollUp(parts, {.slice_ns = length, .long_waits = kLongWaitsOfAnswer});
  const bool damaged = sum.slices.size() != 1 ||
                       sum.slices[0].header.losses[static_cast<size_t>(Loss::kStoreDamaged)] > 0;
  const auto exited = std::count_if(sum.threads.begin(), sum.threads.end(),
                                    [](const auto& info) { return info->exited; });
  if (damaged || static_cast<size_t>(exited) > kMaxExitedRows) return;
  tiers_[tier].push_back(SealedSegment(sum, 0));
  bytes_ += tiers_[tier].back()->bytes;
}

void Sums::Erase(Tier* tier, Tier::iterator begin, Tier::iterator end) {
  for (auto sum = begin; sum != end; ++sum) bytes_ -= (*sum)->bytes;
  tier->erase(begin, end);
}

void Sums::OnRollup(int64_t begin_ns, int64_t end_ns, int64_t slice_ns) {
  for (size_t tier = 0; tier < tiers_.size() && kSumLengths[tier] <= slice_ns; tier++) {
    Tier& sums = tiers_[tier];
    const auto begin = std::find_if(sums.begin(), sums.end(), [&](const SegmentPtr& sum) {
      return MiddleOf(SpanOf(sum)) >= begin_ns;
    });
    const auto end = std::find_if(
        begin, sums.end(), [&](const SegmentPtr& sum) { return MiddleOf(SpanOf(sum)) >= end_ns; });
    Erase(&sums, begin, end);
  }
}

void Sums::OnDrop(int64_t oldest_ns) {
  for (Tier& sums : tiers_) {
    const auto end = std::find_if(sums.begin(), sums.end(), [&](const SegmentPtr& sum) {
      return SpanOf(sum).begin_ns >= oldest_ns;
    });
    Erase(&sums, sums.begin(), end);
  }
}

void Sums::Shrink(size_t max_bytes) {
  for (Tier& sums : tiers_) {
    while (bytes_ > max_bytes && !sums.empty()) Erase(&sums, sums.begin(), sums.begin() + 1);
  }
}

std::vector<Sums::Part> Sums::Replace(const std::vector<Pick>& picks, int64_t before_ns) const {
  std::vector<Place> places;
  for (const Pick& pick : picks) {
    for (size_t i = pick.begin; i < pick.end; i++) places.push_back({&pick, i});
  }
  // By the place where it begins: the sum to take, and the place where it ends.
  struct Taken {
    SegmentPtr sum;
    size_t end = 0;
  };
  std::vector<Taken> taken(places.size());
  std::vector<bool> covered(places.size(), false);
  const auto middle_before = [](const Place& place, int64_t instant_ns) {
    return MiddleOf(place.span()) < instant_ns;
  };
  for (size_t tier = tiers_.size(); tier-- > 0;) {
    const int64_t length = kSumLengths[tier];
    for (const SegmentPtr& sum : tiers_[tier]) {
      const Window span = SpanOf(sum);
      const int64_t stretch = StretchOf(span, length);
      const auto first =
          std::lower_bound(places.begin(), places.end(), stretch * length, middle_before);
      const auto last =
          std::lower_bound(first, places.end(), (stretch + 1) * length, middle_before);
      // One slice is as quick to read, and what is not all there has no sum.
      if (last - first < 2 || span.end_ns > before_ns || first->span().begin_ns != span.begin_ns ||
          std::prev(last)->span().end_ns != span.end_ns) {
        continue;
      }
      const auto begin = static_cast<size_t>(first - places.begin());
      if (covered[begin]) continue;
      const auto end = static_cast<size_t>(last - places.begin());
      taken[begin] = {sum, end};
      std::fill(covered.begin() + (first - places.begin()),
                covered.begin() + (last - places.begin()), true);
    }
  }
  std::vector<Part> parts;
  for (size_t i = 0; i < places.size();) {
    if (taken[i].sum != nullptr) {
      Part& part = parts.emplace_back();
      part.pick = {taken[i].sum, 0, 1};
      part.instead = PicksOf(places, i, taken[i].end);
      i = taken[i].end;
      continue;
    }
    size_t end = i;
    while (end < places.size() && taken[end].sum == nullptr) end++;
    for (Pick& pick : PicksOf(places, i, end)) parts.emplace_back().pick = std::move(pick);
    i = end;
  }
  return parts;
}

}  // namespace profd
