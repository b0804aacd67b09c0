#include "daemon/store/site_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <utility>

namespace profd {

size_t SiteTable::size() const {
  size_t size = used_;
  for (const uint64_t word : present_) size += static_cast<size_t>(std::popcount(word));
  return size;
}

size_t SiteTable::PlaceOf(uint32_t site) const {
  const size_t mask = slots_.size() - 1;
  size_t place = Hash(site) & mask;
  while (slots_[place].site != site && slots_[place].site != kNoSite) place = (place + 1) & mask;
  return place;
}

Amount& SiteTable::Find(uint32_t site) {
  if (slots_.size() <= kSearched) {
    for (last_ = 0; last_ < slots_.size(); last_++) {
      if (slots_[last_].site == site) return slots_[last_];
    }
    if (slots_.size() < kSearched) {
      used_++;
      return slots_.emplace_back(SiteSample{{}, site});
    }
    Grow();
    return At(site);
  }
  last_ = PlaceOf(site);
  if (slots_[last_].site == site) return slots_[last_];
  // Three quarters full at most.
  if (4 * (used_ + 1) > 3 * slots_.size()) {
    Grow();
    return At(site);
  }
  used_++;
  slots_[last_].site = site;
  return slots_[last_];
}

size_t SiteTable::DenseSize() const {
  // How many sites have numbers with so many bits.
  std::array<size_t, std::numeric_limits<uint32_t>::digits + 1> with_bits{};
  ForEach([&](const SiteSample& s) { with_bits[static_cast<size_t>(std::bit_width(s.site))]++; });
  size_t best = dense_.size(), below = 0;
  for (size_t bits = 0; bits < with_bits.size(); bits++) {
    below += with_bits[bits];
    const size_t size = size_t{1} << bits;
    if (size >= kLeastDense && 4 * below >= size) best = std::max(best, size);
  }
  return best;
}

void SiteTable::Grow() {
  const size_t size = DenseSize();
  dense_.resize(size);
  present_.resize(size / kWordBits);
  std::vector<SiteSample> before;
  slots_.swap(before);
  const auto sparse =
      static_cast<size_t>(std::count_if(before.begin(), before.end(), [&](const SiteSample& slot) {
        return slot.site != kNoSite && slot.site >= size;
      }));
  // Half full at most, so that there is room for a while; a list if there are few.
  if (sparse >= kSearched) {
    slots_.resize(std::bit_ceil(2 * (sparse + 1)), SiteSample{{}, kNoSite});
  }
  used_ = 0;
  for (const SiteSample& slot : before) {
    if (slot.site != kNoSite) At(slot.site) = static_cast<const Amount&>(slot);
  }
}

std::vector<SiteSample> SiteTable::Take() && {
  std::vector<SiteSample> all;
  all.reserve(size());
  ForEachDense([&](const SiteSample& s) { all.push_back(s); });
  const auto sparse = static_cast<std::ptrdiff_t>(all.size());
  for (const SiteSample& slot : slots_) {
    if (slot.site != kNoSite) all.push_back(slot);
  }
  std::sort(all.begin() + sparse, all.end(),
            [](const SiteSample& a, const SiteSample& b) { return a.site < b.site; });
  *this = {};
  return all;
}

}  // namespace profd
