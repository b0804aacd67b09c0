// What allocators tell of the objects that they sample: who allocated, who freed, and what is live.
#ifndef PROFD_DAEMON_SOURCE_TOLD_HEAP_H_
#define PROFD_DAEMON_SOURCE_TOLD_HEAP_H_

#include <cstddef>
#include <cstdint>
#include <map>

#include "absl/container/flat_hash_map.h"
#include "bpf/abi.h"
#include "daemon/profile/profile.h"
#include "daemon/source/heap_accounts.h"
#include "daemon/source/live_heap.h"

namespace profd {

// How many bytes are sampled once on the mean, where an object of `size` bytes that is sampled
// stands for `weight`: the solution of weight = size / (1 - exp(-size / R)), as a power of two. 1
// where it stands for no more than itself.
uint64_t SampleBytesOf(uint64_t size, uint64_t weight);

// What was told of one module since it is watched.
struct ToldTotals {
  AllocatorTotals totals;
  uint64_t sample_bytes = 0;  // by the last object; 0: there was none
};

// Not thread-safe. An object is known by its process and address. What it stands for is told as it
// comes to life, and kept here for when it goes.
class ToldHeap {
 public:
  using Place = LiveHeap::Place;

  // Bounds the memory: what more objects than that are live is not counted as live, nor as freed.
  // Of one in 512 KiB these are 64 GiB.
  static constexpr size_t kDefaultLimit = 1 << 17;
  explicit ToldHeap(size_t limit = kDefaultLimit) : live_(limit) {}

  // Takes up a record of a process whose objects are counted as `source` says. What is gone and was
  // never seen to come is from before, and left out.
  void Apply(const profd_told_record& record, const LiveSampling& source);
  void OnExec(int32_t pid, int64_t now_ns) { live_.OnExec(pid, now_ns); }
  // Forgets the objects of all places but these.
  void KeepOnly(const std::map<Place, LiveSampling>& sources) { live_.KeepOnly(sources); }

  // Ends a drain: moves what was told since the last one into the samples and ledgers of `delta`.
  void Finish(ProfileDelta& delta);

  // By the module that holds the probes.
  const std::map<ModuleId, ToldTotals>& totals() const { return totals_; }
  std::map<ModuleId, LiveTotals> Live() const { return live_.Totals(); }
  // Records of both sorts, counted or not.
  int64_t records() const { return records_; }
  // Objects that came to life and found no place among the live ones.
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
  std::map<ModuleId, ToldTotals> totals_;
  int64_t records_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_TOLD_HEAP_H_
