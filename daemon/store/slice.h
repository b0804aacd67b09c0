// The decoded form of what the store keeps: numbers by thread and site between two instants.
#ifndef PROFD_DAEMON_STORE_SLICE_H_
#define PROFD_DAEMON_STORE_SLICE_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/profile/identity.h"
#include "daemon/profile/profile.h"
#include "daemon/store/window.h"

namespace profd {

// What a sample is beside its thread.
struct Site {
  StackId stack{};
  uint64_t argument = 0;
  int32_t syscall = -1;
  Reason reason = Reason::kOther;
  Kind kind = Kind::kWait;
  friend bool operator==(const Site&, const Site&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Site& s) {
    return H::combine(std::move(h), s.stack, s.argument, s.syscall, s.reason, s.kind);
  }
};

inline Site SiteOf(const SampleKey& key) {
  return {key.stack, key.argument, key.syscall, key.reason, key.kind};
}
inline SampleKey KeyOf(ThreadId thread, const Site& site) {
  return {thread, site.stack, site.argument, site.syscall, site.reason, site.kind};
}

struct Amount {
  int64_t weight = 0;  // ns or bytes, by the kind of the site
  int64_t ticks = 0;
};
struct SiteSample : Amount {
  uint32_t site = 0;
};

// Adds to an amount of the same site, which is of this kind.
inline void AddAmount(const Amount& sample, Kind kind, Amount* sum) {
  sum->weight = kind == Kind::kDuration ? std::max(sum->weight, sample.weight)
                                        : WrappingAdd(sum->weight, sample.weight);
  sum->ticks = WrappingAdd(sum->ticks, sample.ticks);
}

// A long wait. A site says where and for what.
struct StoredWait {
  uint32_t thread = 0;
  uint32_t site = 0;
  int64_t begin_ns = 0;
  int64_t duration_ns = 0;
  int64_t doubt_ns = 0;
  uint64_t similar = 0;  // see MergedWait
  StackId waker{};
  bool earlier = false;
  bool lasts = false;
  friend bool operator==(const StoredWait&, const StoredWait&) = default;
};

// What a slice says beside its rows.
struct SliceHeader {
  Window span;  // monotonic
  // Part of it in which each layer was on.
  int64_t books_ns = 0, switch_ns = 0, tick_ns = 0, heap_ns = 0, faults_ns = 0, mappings_ns = 0;
  int64_t cpu_ns = 0, disk_ns = 0, wakers_ns = 0, switch_stacks_ns = 0, bursts_on_ns = 0;
  int64_t bursts = 0, burst_ns = 0, burst_span_ns = 0;
  int64_t tick_interval_ns = 0;  // mean, weighted by ticks; without any, the longest in force
  int64_t ticks = 0, ticks_missed = 0, walks = 0, torn_walks = 0;
  int64_t lost_weight_ns = 0;
  int64_t drains = 1;          // how many were added up
  int64_t folded_threads = 0;  // how many threads that exited were added to their process
  int64_t long_rest_ns = 0, long_work_ns = 0;  // see ProfileDelta; in sums the largest
  CollectorCost cost{};
  LossCounts losses{};

  int64_t LengthNs() const { return WrappingSubtract(span.end_ns, span.begin_ns); }
};

SliceHeader HeaderOf(const ProfileDelta& delta);
// sum += header. A sum begins as a header with `drains` 0. Spans become their hull.
void AddHeader(const SliceHeader& header, SliceHeader* sum);
// sum += delta, field by field.
void AddLedger(const LedgerDelta& delta, LedgerDelta* sum);

// The numbers of one thread.
struct Row {
  static constexpr uint32_t kNoLedger = 0xffffffff;
  static constexpr uint8_t kNoReason = 0xff;

  uint32_t thread = 0;
  uint32_t samples = 0;             // how many of the slice's samples, in their order
  uint32_t ledger = kNoLedger;      // index into the slice's ledgers
  uint8_t rest_reason = kNoReason;  // not known
  int64_t rest_ns = 0;              // beside the ledger: time in one wait
};

struct Slice {
  SliceHeader header;
  std::vector<Row> rows;  // threads ascending
  std::vector<LedgerDelta> ledgers;
  std::vector<SiteSample> samples;  // in each row sites ascending
  // Where several drains were added up, of each sample of bursts in turn: the sum of the squares of
  // the weights. In a slice of one drain they are the squares of the weights.
  std::vector<double> squares;
  std::vector<StoredWait> waits;  // in any order

  void Clear();
  size_t Bytes() const;
};

// sum += time in one wait; `reason` as in Row.
void AddRest(uint8_t reason, int64_t rest_ns, LedgerDelta* sum);
// The numbers of a row but its samples.
LedgerDelta LedgerOf(const Slice& slice, const Row& row);

// Some slices with all that they name.
struct Segment {
  std::vector<std::shared_ptr<const ThreadInfo>> threads;
  std::vector<Site> sites;
  std::vector<std::shared_ptr<const StackTrace>> stacks;  // in any order
  std::vector<Slice> slices;
  ModuleIdentities modules;  // that frames of the stacks name; none in a segment that is open
  std::shared_ptr<const BootIdentity> boot;  // null: not known

  size_t Bytes() const;  // without what others share: infos of threads, frames of stacks
};

}  // namespace profd

#endif  // PROFD_DAEMON_STORE_SLICE_H_
