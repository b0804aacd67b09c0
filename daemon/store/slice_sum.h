// Adds slices up, thread by thread and site by site.
#ifndef PROFD_DAEMON_STORE_SLICE_SUM_H_
#define PROFD_DAEMON_STORE_SLICE_SUM_H_

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/store/slice.h"

namespace profd {

// The samples of one thread, found by site.
class SiteTable {
 public:
  // The entry of a site, made if need be. Valid until the next call.
  SiteSample& At(uint32_t site);
  const std::vector<SiteSample>& entries() const { return entries_; }
  std::vector<SiteSample> Take() && { return std::move(entries_); }

 private:
  static size_t Hash(uint32_t site) { return site * 0x9e3779b1u; }
  void Grow();

  std::vector<SiteSample> entries_;
  std::vector<uint32_t>
      places_;       // open addressing: index + 1; empty while few entries are searched
  size_t last_ = 0;  // a thread at rest names the same site again and again
};

class SliceSum {
 public:
  static constexpr uint32_t kLeftOut = 0xffffffff;

  struct Thread {
    uint32_t thread = 0;
    LedgerDelta ledger;
    SiteTable samples;
  };

  SliceSum() { header_.drains = 0; }

  // By what to add up what a slice names: by its numbers, ours.
  struct Mapping {
    std::span<const uint32_t> threads;  // kLeftOut: not at all
    std::span<const uint32_t> sites;
    // Where threads are added to others: the threads with which levels stay. Else empty.
    std::span<const uint32_t> level_threads;
    std::vector<bool> of_bursts, levels;  // which of the slice's sites are
  };
  void Add(const Slice& slice, const Mapping& mapping);
  // An entry for a thread of which there may be none yet.
  Thread& At(uint32_t thread) { return threads_[PlaceOf(thread)]; }

  SliceHeader& header() { return header_; }
  // In the order in which they came.
  std::vector<Thread>& threads() { return threads_; }
  double Squares(uint32_t thread, uint32_t site) const;
  bool empty() const { return header_.drains == 0; }

 private:
  size_t PlaceOf(uint32_t thread);  // in threads_; made if need be

  SliceHeader header_;
  std::vector<Thread> threads_;
  std::vector<uint32_t> places_;  // by number of the thread: index into threads_ + 1
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, double> squares_;  // of bursts
};

// A mapping for slices that name these sites.
SliceSum::Mapping MappingOf(std::span<const Site> sites);

}  // namespace profd

#endif  // PROFD_DAEMON_STORE_SLICE_SUM_H_
