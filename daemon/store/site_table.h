// The samples of one thread, found by site.
#ifndef PROFD_DAEMON_STORE_SITE_TABLE_H_
#define PROFD_DAEMON_STORE_SITE_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/store/slice.h"

namespace profd {

// Most threads wait in a few places, some in hundreds. A few sites are a list, more of them a table
// with open addressing. Where a quarter of 16 neighbours is in use, they are a page: the frequent
// sites have low numbers. Pages stay where they are, so that growing neither copies nor leaves
// holes.
class SiteTable {
 public:
  // The amount of a site, made if need be. Valid until the next call. Not after Sort.
  Amount& At(uint32_t site) {
    if (Page* const page = PageOf(site)) {
      page->present |= BitOf(site);
      return page->amounts[site % kPageSites];
    }
    if (last_ < slots_.size() && slots_[last_].site == site) return slots_[last_];
    return Find(site);
  }
  // Begins to load the amount of a site that is asked for soon: the sums of all threads are larger
  // than the caches.
  void Prefetch(uint32_t site) const {
    if (const Page* const page = PageOf(site)) {
      __builtin_prefetch(&page->amounts[site % kPageSites], /*rw=*/1);
    } else if (slots_.size() > kSearched) {
      __builtin_prefetch(&slots_[Hash(site) & (slots_.size() - 1)], /*rw=*/1);
    }
  }
  // In any order.
  template <typename Function>
  void ForEach(Function function) const {
    for (uint32_t number = 0; number < pages_.size(); number++) {
      for (uint64_t left = PresentIn(number); left != 0; left &= left - 1) {
        const auto place = static_cast<uint32_t>(__builtin_ctzll(left));
        function(SiteSample{{pages_[number]->amounts[place]}, number * kPageSites + place});
      }
    }
    for (const SiteSample& slot : slots_) {
      if (slot.site != kNoSite) function(slot);
    }
  }
  size_t size() const;

  // From now on it can be read by site, and not grow any more.
  void Sort();
  // Gives the amounts of a sorted table, by site.
  class Cursor {
   public:
    explicit Cursor(const SiteTable& table) : table_(&table), left_(table.PresentIn(0)) {}
    // False at the end.
    bool Next();
    uint32_t site() const { return site_; }
    const Amount& amount() const { return *amount_; }

   private:
    const SiteTable* table_;
    uint32_t page_ = 0;
    uint64_t left_;  // of the page
    size_t slot_ = 0;
    uint32_t site_ = kNoSite;
    const Amount* amount_ = nullptr;
  };
  // The amount of a site of a sorted table; null: there is none.
  Amount* FindSorted(uint32_t site);

 private:
  static constexpr uint32_t kNoSite = 0xffffffff;
  static constexpr uint32_t kPageSites = 16;
  // More entries than this are found by hash.
  static constexpr size_t kSearched = 8;

  struct Page {
    uint64_t present = 0;  // a bit for each
    std::array<Amount, kPageSites> amounts;
  };

  static size_t Hash(uint32_t site) { return site * size_t{0x9e3779b1} >> 4; }
  static uint64_t BitOf(uint32_t site) { return uint64_t{1} << site % kPageSites; }
  Page* PageOf(uint32_t site) const {
    return site / kPageSites < pages_.size() ? pages_[site / kPageSites].get() : nullptr;
  }
  uint64_t PresentIn(uint32_t page) const {
    return page < pages_.size() && pages_[page] != nullptr ? pages_[page]->present : 0;
  }

  Amount& Find(uint32_t site);
  // Where the site is or would be.
  size_t PlaceOf(uint32_t site) const;
  // Makes room for more sites than there are.
  void Grow();
  // Makes pages of the neighbours among these samples. What is left stays.
  void MakePages(std::vector<SiteSample>* samples);

  std::vector<std::unique_ptr<Page>> pages_;  // by site; null: none
  std::vector<SiteSample> slots_;             // of other sites
  size_t used_ = 0;                           // of the slots
  size_t last_ = 0;  // a thread at rest names the same site again and again
};

}  // namespace profd

#endif  // PROFD_DAEMON_STORE_SITE_TABLE_H_
