// The samples of one thread, found by site.
#ifndef PROFD_DAEMON_STORE_SITE_TABLE_H_
#define PROFD_DAEMON_STORE_SITE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/store/slice.h"

namespace profd {

// A short list, or a table with open addressing: most threads wait in a few places, some in
// hundreds.
class SiteTable {
 public:
  // The entry of a site, made if need be. Valid until the next call.
  SiteSample& At(uint32_t site) {
    if (last_ < slots_.size() && slots_[last_].site == site) return slots_[last_];
    return Find(site);
  }
  // Begins to load the entry of a site that is asked for soon: the sums of all threads are larger
  // than the caches.
  void Prefetch(uint32_t site) const {
    if (slots_.size() > kSearched) {
      __builtin_prefetch(&slots_[Hash(site) & (slots_.size() - 1)], /*rw=*/1);
    }
  }
  size_t size() const { return size_; }
  template <typename Function>
  void ForEach(Function function) const {
    for (const SiteSample& slot : slots_) {
      if (slot.site != kNoSite) function(slot);
    }
  }
  // All of them, by site.
  std::vector<SiteSample> Take() &&;

 private:
  static constexpr uint32_t kNoSite = 0xffffffff;
  // More entries than this are found by hash.
  static constexpr size_t kSearched = 8;
  // Sites that follow each other are next to each other: the frequent ones have low numbers.
  static constexpr unsigned kGroupBits = 3;

  static size_t Hash(uint32_t site) {
    return (site >> kGroupBits) * size_t{0x9e3779b1} << kGroupBits |
           (site & ((1u << kGroupBits) - 1));
  }

  SiteSample& Find(uint32_t site);
  // Where the site is or would be.
  size_t PlaceOf(uint32_t site) const;
  void Grow();

  std::vector<SiteSample> slots_;
  size_t size_ = 0;
  size_t last_ = 0;  // a thread at rest names the same site again and again
};

}  // namespace profd

#endif  // PROFD_DAEMON_STORE_SITE_TABLE_H_
