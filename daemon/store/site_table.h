// The samples of one thread, found by site.
#ifndef PROFD_DAEMON_STORE_SITE_TABLE_H_
#define PROFD_DAEMON_STORE_SITE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/store/slice.h"

namespace profd {

// Most threads wait in a few places, some in hundreds. A few sites are a list. Of more, those with
// low numbers, which are the frequent ones, are an array as long as a quarter of it is in use; the
// others are in a table with open addressing.
class SiteTable {
 public:
  // The amount of a site, made if need be. Valid until the next call.
  Amount& At(uint32_t site) {
    if (site < dense_.size()) {
      present_[site / kWordBits] |= uint64_t{1} << site % kWordBits;
      return dense_[site];
    }
    if (last_ < slots_.size() && slots_[last_].site == site) return slots_[last_];
    return Find(site);
  }
  // Begins to load the amount of a site that is asked for soon: the sums of all threads are larger
  // than the caches.
  void Prefetch(uint32_t site) const {
    if (site < dense_.size()) {
      __builtin_prefetch(&dense_[site], /*rw=*/1);
    } else if (slots_.size() > kSearched) {
      __builtin_prefetch(&slots_[Hash(site) & (slots_.size() - 1)], /*rw=*/1);
    }
  }
  // In any order.
  template <typename Function>
  void ForEach(Function function) const {
    ForEachDense(function);
    for (const SiteSample& slot : slots_) {
      if (slot.site != kNoSite) function(slot);
    }
  }
  size_t size() const;
  // All of them, by site. Leaves the table empty.
  std::vector<SiteSample> Take() &&;

 private:
  static constexpr uint32_t kNoSite = 0xffffffff;
  static constexpr size_t kWordBits = 64;
  // More entries than this are an array or found by hash.
  static constexpr size_t kSearched = 8;
  static constexpr size_t kLeastDense = kWordBits;

  static size_t Hash(uint32_t site) { return site * size_t{0x9e3779b1} >> 4; }

  template <typename Function>
  void ForEachDense(Function function) const {
    for (size_t word = 0; word < present_.size(); word++) {
      for (uint64_t left = present_[word]; left != 0; left &= left - 1) {
        const size_t site = word * kWordBits + static_cast<size_t>(__builtin_ctzll(left));
        function(SiteSample{{dense_[site]}, static_cast<uint32_t>(site)});
      }
    }
  }

  Amount& Find(uint32_t site);
  // Where the site is or would be.
  size_t PlaceOf(uint32_t site) const;
  // Makes room for more sites than there are.
  void Grow();
  // The size that the array should have.
  size_t DenseSize() const;

  std::vector<Amount> dense_;      // by site
  std::vector<uint64_t> present_;  // which of these there are, a bit for each
  std::vector<SiteSample> slots_;  // of other sites
  size_t used_ = 0;                // of the slots
  size_t last_ = 0;                // a thread at rest names the same site again and again
};

}  // namespace profd

#endif  // PROFD_DAEMON_STORE_SITE_TABLE_H_
