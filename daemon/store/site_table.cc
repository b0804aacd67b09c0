#include "daemon/store/site_table.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace profd {

size_t SiteTable::size() const {
  size_t size = used_;
  for (uint32_t page = 0; page < pages_.size(); page++) {
    size += static_cast<size_t>(std::popcount(PresentIn(page)));
  }
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

void SiteTable::MakePages(std::vector<SiteSample>* samples) {
  std::vector<uint8_t> in_page;
  for (const SiteSample& sample : *samples) {
    const size_t number = sample.site / kPageSites;
    if (number >= in_page.size()) in_page.resize(number + 1, 0);
    in_page[number]++;
  }
  size_t kept = 0;
  for (const SiteSample& sample : *samples) {
    const size_t number = sample.site / kPageSites;
    if (4 * in_page[number] < kPageSites) {
      (*samples)[kept++] = sample;
      continue;
    }
    if (number >= pages_.size()) pages_.resize(number + 1);
    if (pages_[number] == nullptr) pages_[number] = std::make_unique<Page>();
    At(sample.site) = static_cast<const Amount&>(sample);
  }
  samples->resize(kept);
}

void SiteTable::Grow() {
  std::vector<SiteSample> samples;
  slots_.swap(samples);
  std::erase_if(samples, [](const SiteSample& slot) { return slot.site == kNoSite; });
  MakePages(&samples);
  // Half full at most, so that there is room for a while; a list if there are few.
  if (samples.size() >= kSearched) {
    slots_.resize(std::bit_ceil(2 * (samples.size() + 1)), SiteSample{{}, kNoSite});
  }
  used_ = 0;
  for (const SiteSample& sample : samples) At(sample.site) = static_cast<const Amount&>(sample);
}

void SiteTable::Sort() {
  std::erase_if(slots_, [](const SiteSample& slot) { return slot.site == kNoSite; });
  std::sort(slots_.begin(), slots_.end(),
            [](const SiteSample& a, const SiteSample& b) { return a.site < b.site; });
  slots_.shrink_to_fit();
}

Amount* SiteTable::FindSorted(uint32_t site) {
  if (Page* const page = PageOf(site)) {
    return (page->present & BitOf(site)) == 0 ? nullptr : &page->amounts[site % kPageSites];
  }
  const auto slot = std::lower_bound(slots_.begin(), slots_.end(), site,
                                     [](const SiteSample& s, uint32_t n) { return s.site < n; });
  return slot == slots_.end() || slot->site != site ? nullptr : &*slot;
}

bool SiteTable::Cursor::Next() {
  while (left_ == 0 && page_ < table_->pages_.size()) left_ = table_->PresentIn(++page_);
  const uint32_t in_page =
      left_ == 0 ? kNoSite : page_ * kPageSites + static_cast<uint32_t>(__builtin_ctzll(left_));
  const uint32_t in_slot = slot_ < table_->slots_.size() ? table_->slots_[slot_].site : kNoSite;
  site_ = std::min(in_page, in_slot);
  if (site_ == kNoSite) return false;
  if (in_page < in_slot) {
    left_ &= left_ - 1;
    amount_ = &table_->pages_[page_]->amounts[site_ % kPageSites];
  } else {
    amount_ = &table_->slots_[slot_++];
  }
  return true;
}

}  // namespace profd
