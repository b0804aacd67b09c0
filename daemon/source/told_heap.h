// The objects that programs sample and report: who allocated, who freed, and what is live.
#ifndef PROFD_DAEMON_SOURCE_TOLD_HEAP_H_
#define PROFD_DAEMON_SOURCE_TOLD_HEAP_H_

#include <cstddef>
#include <cstdint>
#include <map>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "bpf/abi.h"
#include "daemon/profile/profile.h"
#include "daemon/source/heap_accounts.h"
#include "daemon/source/live_heap.h"

namespace profd {

// The mean number of bytes between samples, R, if a sampled object of `size` bytes stands for
// `weight`: the solution of weight = size / (1 - exp(-size / R)), as a power of two. 1 if it stands
// only for itself.
uint64_t SampleBytesOf(uint64_t size, uint64_t weight);

// What one module reported since it is watched.
struct ToldTotals {
  AllocatorTotals totals;
  uint64_t sample_bytes = 0;  // from the last object; 0: there was none
};

// Not thread-safe. An object is identified by its process and address. Its weight is reported when
// it is allocated, and kept here until it is freed.
class ToldHeap {
 public:
  using Place = LiveHeap::Place;

  // Bounds the memory: the number of live objects. Objects beyond it count neither as live nor as
  // freed. With one sample in 512 KiB this is enough for 64 GiB.
  static constexpr size_t kDefaultLimit = 1 << 17;
  explicit ToldHeap(size_t limit = kDefaultLimit) : live_(limit) {}

  // Applies a record of a process whose objects are counted as `source` says. A freed object that
  // was never seen allocated is older than the probes, and ignored.
  void Apply(const profd_told_record& record, const LiveSampling& source);
  void OnExec(int32_t pid, int64_t now_ns) { live_.OnExec(pid, now_ns); }
  // Forgets the objects of all other places.
  void KeepOnly(const std::map<Place, LiveSampling>& sources) { live_.KeepOnly(sources); }
  // Forgets the totals of unknown modules.
  void KeepOnlyModules(absl::FunctionRef<bool(WatchId)> is_known) {
    std::erase_if(totals_, [&](const auto& entry) { return !is_known(entry.first); });
  }

  // Ends a drain: moves the changes since the last one into the samples and ledgers of `delta`.
  void Finish(ProfileDelta& delta);

  // By the module with the probes.
  const std::map<WatchId, ToldTotals>& totals() const { return totals_; }
  std::map<WatchId, LiveTotals> Live() const { return live_.Totals(); }
  // Records of allocations and frees, counted or not.
  int64_t records() const { return records_; }
  // Objects not counted as live because of the limit.
  uint64_t dropped() const { return live_.dropped(); }

 private:
  struct Sum {
    int64_t bytes = 0;
    int64_t count = 0;
  };

  void Count(const profd_told_record& record, Kind kind, int64_t bytes);

  LiveHeap live_;
  // Since the last drain.
  absl::flat_hash_map<SampleKey, Sum> samples_;
  absl::flat_hash_map<ThreadId, LedgerDelta> ledgers_;
  std::map<WatchId, ToldTotals> totals_;
  int64_t records_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_TOLD_HEAP_H_
