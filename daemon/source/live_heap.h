// The live heap by stack: objects sampled by jemalloc, allocated less freed.
#ifndef PROFD_DAEMON_SOURCE_LIVE_HEAP_H_
#define PROFD_DAEMON_SOURCE_LIVE_HEAP_H_

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "bpf/abi.h"
#include "daemon/probes/allocator_state.h"
#include "daemon/probes/wanted.h"
#include "daemon/profile/profile.h"

namespace profd {

// The weight of a sampled object of `size` bytes. The expected sum of the weights is the true sum:
// jemalloc samples on average once per `sample_bytes` bytes, each byte with the same probability,
// so it samples an object with probability 1 - exp(-size / sample_bytes).
struct ObjectWeight {
  double bytes = 0;
  double objects = 0;
};
ObjectWeight WeighObject(uint64_t size, uint64_t sample_bytes);

// Rounds to whole bytes or objects. Bounded, because sums come from memory that may hold anything.
int64_t RoundedSum(double value);

// An object whose weight is known.
struct WeighedObject {
  ThreadId thread{};
  StackId stack{};
  uint64_t sample_bytes = 0;  // mean bytes between samples
  ObjectWeight weight;
};

// The estimated live heap of the processes with an allocator.
struct LiveTotals {
  int64_t since_ns = 0;  // latest start among them, monotonic
  double bytes = 0;
  double objects = 0;
};

// Not thread-safe. An object is identified by jemalloc's context (thread and stack) and its size,
// because not all versions report its address. Objects that agree in these are interchangeable.
class LiveHeap {
 public:
  using Place = ProbedModule;

  // Bounds the memory: the number of groups of equal objects. Objects beyond it are not counted.
  static constexpr size_t kDefaultLimit = 1 << 18;
  explicit LiveHeap(size_t limit = kDefaultLimit) : limit_(limit) {}

  // Applies a record of a process whose heap is counted as `source` says. `wall_offset_ns`: wall
  // clock minus monotonic. A freed object that was never seen allocated is older than the probes,
  // and ignored.
  void Apply(const profd_live_heap_record& record, const LiveSampling& source,
             int64_t wall_offset_ns);
  // The same for an object with an address: it replaces the one known there.
  void Put(const Place& place, const LiveSampling& source, uint64_t address,
           const WeighedObject& object);
  // The object was freed. Returns its weight; empty if it was not known.
  std::optional<ObjectWeight> Take(const Place& place, const LiveSampling& source,
                                   uint64_t address);
  // A process called exec: its heap is empty.
  void OnExec(int32_t pid, int64_t now_ns);
  // Forgets the heaps of all other places, and of places that are counted anew.
  void KeepOnly(const std::map<Place, LiveSampling>& sources);

  // Ends a drain: moves the changes since the last one into the samples of `delta`, with
  // Kind::kInuse. Weights are bytes, ticks are objects. Sums of either are rounded, not the
  // changes. The argument of a sample is the mean number of bytes between samples.
  void Finish(ProfileDelta& delta);

  // By the allocator's module.
  std::map<WatchId, LiveTotals> Totals() const;
  // Objects not counted because of the limit.
  uint64_t dropped() const { return dropped_; }

 private:
  struct Owner {
    ThreadId thread{};
    StackId stack{};
    uint64_t sample_bytes = 0;  // when the object was sampled
    friend bool operator==(const Owner&, const Owner&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const Owner& o) {
      return H::combine(std::move(h), o.thread, o.stack, o.sample_bytes);
    }
  };

  // Interchangeable objects.
  struct Alike {
    Owner owner;
    ObjectWeight weight;  // of each
    uint64_t count = 0;
  };

  struct Group {
    uint64_t context = 0;
    uint64_t size = 0;
    friend bool operator==(const Group&, const Group&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const Group& g) {
      return H::combine(std::move(h), g.context, g.size);
    }
  };

  struct Heap {
    int64_t attached_ns = 0;
    int64_t since_ns = 0;
    uint64_t count = 0;
    double bytes = 0;
    double objects = 0;
    // Oldest first: objects with different frames in our stacks may share a context of jemalloc.
    absl::flat_hash_map<Group, std::vector<Alike>> groups;
  };

  struct Sum {
    uint64_t count = 0;
    double bytes = 0;
    double objects = 0;
    int64_t told_bytes = 0;
    int64_t told_objects = 0;
    bool changed = false;
  };

  // The heap of a place as `source` counts it; empty if it was not counted before.
  Heap& HeapOf(const Place& place, const LiveSampling& source);
  std::optional<ObjectWeight> Take(Heap& heap, const Group& group);
  void Add(Heap& heap, const profd_live_heap_record& record, uint64_t sample_bytes);
  void Remove(Heap& heap, const profd_live_heap_record& record);
  // Adds or removes `count` objects.
  void Change(Heap& heap, const Alike& alike, uint64_t count, bool more);
  void Clear(Heap& heap);

  const size_t limit_;
  size_t kept_ = 0;  // elements in the groups of all heaps
  uint64_t dropped_ = 0;
  std::map<Place, Heap> heaps_;
  absl::flat_hash_map<Owner, Sum> sums_;
  std::vector<Owner> changed_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_LIVE_HEAP_H_
