#include "daemon/store/site_table.h"

#include <algorithm>
#include <utility>

namespace profd {

size_t SiteTable::PlaceOf(uint32_t site) const {
  const size_t mask = slots_.size() - 1;
  size_t place = Hash(site) & mask;
  while (slots_[place].site != site && slots_[place].site != kNoSite) place = (place + 1) & mask;
  return place;
}

SiteSample& SiteTable::Find(uint32_t site) {
  if (slots_.size() <= kSearched) {
    for (last_ = 0; last_ < slots_.size(); last_++) {
      if (slots_[last_].site == site) return slots_[last_];
    }
    if (slots_.size() < kSearched) {
      size_++;
      return slots_.emplace_back(SiteSample{.site = site});
    }
    Grow();
  }
  last_ = PlaceOf(site);
  if (slots_[last_].site == site) return slots_[last_];
  // Three quarters full at most.
  if (4 * (size_ + 1) > 3 * slots_.size()) {
    Grow();
    last_ = PlaceOf(site);
  }
  size_++;
  slots_[last_].site = site;
  return slots_[last_];
}

void SiteTable::Grow() {
  std::vector<SiteSample> grown(std::max(2 * slots_.size(), 4 * kSearched),
                                SiteSample{.site = kNoSite});
  slots_.swap(grown);
  for (const SiteSample& entry : grown) {
    if (entry.site != kNoSite) slots_[PlaceOf(entry.site)] = entry;
  }
}

std::vector<SiteSample> SiteTable::Take() && {
  std::erase_if(slots_, [](const SiteSample& slot) { return slot.site == kNoSite; });
  std::sort(slots_.begin(), slots_.end(),
            [](const SiteSample& a, const SiteSample& b) { return a.site < b.site; });
  size_ = 0;
  return std::exchange(slots_, {});
}

}  // namespace profd
