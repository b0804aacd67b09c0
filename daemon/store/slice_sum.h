// Adds slices up, thread by thread and site by site.
#ifndef PROFD_DAEMON_STORE_SLICE_SUM_H_
#define PROFD_DAEMON_STORE_SLICE_SUM_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/store/merged_ledger.h"
#include "daemon/store/site_table.h"
#include "daemon/store/slice.h"
#include "daemon/store/slice_cursor.h"

namespace profd {

class SliceSum {
 public:
  static constexpr uint32_t kLeftOut = 0xffffffff;

  // Numbers as in a Row: most threads of a large process only rest, and need no ledger.
  struct Thread {
    uint32_t thread = 0;
    uint32_t ledger = Row::kNoLedger;  // index into ledgers()
    uint8_t rest_reason = Row::kNoReason;
    int64_t rest_ns = 0;
    SiteTable samples;
  };

  // A thread that exited and is added to another row, and the first thread of a process.
  static constexpr uint8_t kCountThread = 1, kCountProcess = 2;

  SliceSum() { header_.drains = 0; }

  // By what to add up what a slice names: by its numbers, ours.
  struct Mapping {
    std::span<const uint32_t> threads;  // kLeftOut: not at all; so are those without a row
    std::span<const uint32_t> sites;
    // Where threads are added to others: the threads with which levels stay. Else empty.
    std::span<const uint32_t> level_threads;
    // What of kCountThread and kCountProcess to count with the first numbers of a thread, which
    // clears it. Else empty.
    std::span<uint8_t> uncounted;
    std::function<void(const RowView&)> left_out{};  // called with each such row, if there is one
    bool without_levels = false;                     // rows with nothing else are left out
    std::vector<SiteTraits> traits;                  // of the slice's sites
    bool any_special = false;                        // whether amounts of any do not just add up
  };
  // Slices of one segment, in time order. Thread by thread, so that the sums of a thread are
  // touched once and not once for each slice.
  void Add(std::span<SliceCursor> slices, const Mapping& mapping);
  // An entry for a thread of which there may be none yet.
  Thread& At(uint32_t thread) { return threads_[PlaceOf(thread)]; }

  // The index in threads() of a thread that is there.
  size_t Place(uint32_t thread) const { return places_[thread] - 1; }

  SliceHeader& header() { return header_; }
  // In the order in which they came.
  std::vector<Thread>& threads() { return threads_; }
  const std::deque<LedgerDelta>& ledgers() const { return ledgers_; }
  // The ledger and the rest together.
  MergedLedger LedgerOf(const Thread& thread) const;
  // All of them; the merger of slices keeps them few.
  std::vector<StoredWait>& waits() { return waits_; }
  double Squares(uint32_t thread, uint32_t site) const;
  bool empty() const { return header_.drains == 0; }

 private:
  size_t PlaceOf(uint32_t thread);  // in threads_; made if need be
  // `one_drain`: the slice is of one.
  void AddRow(const RowView& row, bool one_drain, const Mapping& mapping);
  // Of a row that has nothing else, where threads are added to others.
  void AddLevels(const RowView& row, const Mapping& mapping);
  void AddWaits(std::span<const StoredWait> waits, const Mapping& mapping);
  LedgerDelta& LedgerAt(size_t place);  // made if need be
  void AddNumbers(const RowView& row, size_t place);
  void AddTo(size_t place, const SiteSample& sample, const Mapping& mapping);
  void CountFolded(uint8_t what, size_t place);

  SliceHeader header_;
  std::vector<Thread> threads_;
  std::deque<LedgerDelta> ledgers_;  // large: as it grows, nothing is copied
  std::vector<StoredWait> waits_;
  std::vector<uint32_t> places_;  // by number of the thread: index into threads_ + 1
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, double> squares_;  // of bursts
};

// What of a thread to count when it is added to another row. What was a row for several is counted
// already.
uint8_t WhatToCount(const ThreadInfo& info);
// A mapping for slices that name these sites.
SliceSum::Mapping MappingOf(std::span<const Site> sites);

}  // namespace profd

#endif  // PROFD_DAEMON_STORE_SLICE_SUM_H_
