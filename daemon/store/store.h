// Where profiles are kept, and how a window of them is merged.
#ifndef PROFD_DAEMON_STORE_STORE_H_
#define PROFD_DAEMON_STORE_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "daemon/base/status.h"
#include "daemon/profile/identity.h"
#include "daemon/profile/profile.h"
#include "daemon/store/merged_ledger.h"
#include "daemon/store/merged_samples.h"
#include "daemon/store/window.h"

namespace profd {

// One thread's account and samples over a window. Raw: nothing is scaled yet.
struct MergedThread {
  static std::shared_ptr<const ThreadInfo> Nobody() {
    static const auto kNobody = std::make_shared<const ThreadInfo>();
    return kNobody;
  }

  std::shared_ptr<const ThreadInfo> info = Nobody();  // not null; shared with the store
  MergedLedger ledger;
  MergedSamples samples;
};

// A long wait in a window.
struct MergedWait {
  size_t thread = 0;  // index into MergedProfile::threads
  LongWait wait;
  uint64_t similar = 0;  // that were not longer, of the same process, stack and reason
};

// A window of the profile, merged and filtered. It is made of slices: single drains, or several
// that were added up. Slices are never cut: those whose middle lies in the window are taken, and
// where there is none, those that overlap it. `covered` therefore differs from what was asked for
// by up to half a slice at each edge.
struct MergedProfile {
  Window requested;
  Window covered;  // exactly what the numbers stand for; empty when nothing overlaps
  // Part of `covered` in which each layer was on.
  int64_t books_ns = 0, switch_ns = 0, tick_ns = 0, heap_ns = 0, faults_ns = 0;
  int64_t mappings_ns = 0, cpu_ns = 0, disk_ns = 0, wakers_ns = 0, switch_stacks_ns = 0;
  int64_t bursts_on_ns = 0;  // the same of bursts: in which they were planned
  // Bursts of tracing in it, their length, and the time that they stand for.
  int64_t bursts = 0, burst_ns = 0, burst_span_ns = 0;
  int64_t tick_interval_ns = 0;  // mean, weighted by ticks; without any, the longest in force
  int64_t ticks = 0, ticks_missed = 0, walks = 0, torn_walks = 0;
  CollectorCost cost;
  LossCounts losses{};  // the store's own included: kStoreDropped, kStoreDamaged, kStackUnknown
  int64_t lost_weight_ns = 0;
  int64_t coarsest_ns = 0;     // length of the longest slice
  int64_t folded_threads = 0;  // how many threads that exited are part of a row for their process
  std::vector<MergedThread> threads;
  // Every longer wait that overlaps `covered` is there, or counted as similar to one that is. 0:
  // none.
  int64_t long_rest_ns = 0, long_work_ns = 0;
  std::vector<MergedWait> long_waits;  // the longest first
  // Every stack that a sample or a long wait names and that is known; shared with the store.
  std::vector<std::shared_ptr<const StackTrace>> stacks;
  // What the store knows of modules that frames name, those of the last seconds excepted.
  ModuleIdentities modules;
};

// Thread-safe: one writer, any number of readers.
class Store {
 public:
  virtual ~Store() = default;

  // Appends what was drained. Deltas come in time order.
  virtual absl::Status Append(ProfileDelta delta) = 0;

  // Merges the slices of `window` and keeps the threads for which `keep` is true. `keep` is asked
  // once per thread of the window, with the last name that it had there. What cannot be read is
  // counted as kStoreDamaged. A thread that has only levels there has no row. Errors:
  // InvalidArgument for a window that ends before it begins.
  virtual absl::StatusOr<MergedProfile> Merge(
      Window window, const std::function<bool(const ThreadInfo&)>& keep) const = 0;

  // The same, and of the kinds that are levels what there was at the end of the window, made by
  // threads of the window or of the time before it.
  virtual absl::StatusOr<MergedProfile> MergeLevels(
      Window window, const std::function<bool(const ThreadInfo&)>& keep) const = 0;

  // The modules that frames of stored stacks may name, except those of the last seconds.
  virtual absl::flat_hash_set<ModuleId> NamedModules() const = 0;
  // Monotonic ns of the oldest slice; 0 when empty.
  virtual int64_t OldestNs() const = 0;
  // Bytes held.
  virtual size_t Bytes() const = 0;
  // What the store itself dropped since it was made.
  virtual LossCounts Losses() const { return {}; }
};

}  // namespace profd

#endif  // PROFD_DAEMON_STORE_STORE_H_
