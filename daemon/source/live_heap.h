// The live heap by stack, of the objects that jemalloc samples: what came to life less what is
// gone.
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

// What an object of `size` bytes that was sampled stands for, so that the sum over all that are
// sampled has the true sum as its mean: jemalloc samples once in `sample_bytes` bytes on the mean,
// each byte alike, so an object is sampled with probability 1 - exp(-size / sample_bytes).
struct ObjectWeight {
  double bytes = 0;
  double objects = 0;
};
ObjectWeight WeighObject(uint64_t size, uint64_t sample_bytes);

// To whole bytes or objects; bounded, as sums come from memory that says what it likes.
int64_t RoundedSum(double value);

// An object of which it is told what it stands for.
struct WeighedObject {
  ThreadId thread{};
  StackId stack{};
  uint64_t sample_bytes = 0;  // bytes that are sampled once on the mean
  ObjectWeight weight;
};

// The live heap of the processes that run an allocator; estimates.
struct LiveTotals {
  int64_t since_ns = 0;  // the latest of theirs, monotonic
  double bytes = 0;
  double objects = 0;
};

// Not thread-safe. An object is known by jemalloc's context, that is thread and stack, and its
// size: not by its address, which is not told by all versions. Objects alike in these stand for
// each other.
class LiveHeap {
 public:
  using Place = ProbedModule;

  // Bounds the memory: what more objects than that there are alike of is not counted.
  static constexpr size_t kDefaultLimit = 1 << 18;
  explicit LiveHeap(size_t limit = kDefaultLimit) : limit_(limit) {}

  // Takes up a record of a process whose heap is counted as `source` says. `wall_offset_ns`: wall
  // clock minus monotonic. What is gone and was never seen to come is from before, and left out.
  void Apply(const profd_live_heap_record& record, const LiveSampling& source,
             int64_t wall_offset_ns);
  // The same of an object that is known by its address: it takes the place of what is known there.
  void Put(const Place& place, const LiveSampling& source, uint64_t address,
           const WeighedObject& object);
  // It is gone. What it stood for; empty when it was not known.
  std::optional<ObjectWeight> Take(const Place& place, const LiveSampling& source,
                                   uint64_t address);
  // A process became another program: nothing of its heap is left.
  void OnExec(int32_t pid, int64_t now_ns);
  // Forgets the heaps of all places but these, and of those that are counted anew.
  void KeepOnly(const std::map<Place, LiveSampling>& sources);

  // Ends a drain: moves what changed since the last one into the samples of `delta`, as changes of
  // Kind::kInuse. Weights are bytes, ticks are objects; sums of either are rounded, not the
  // changes. The argument of a sample is how many bytes were sampled once on the mean.
  void Finish(ProfileDelta& delta);

  // By the module that holds the allocator.
  std::map<ModuleId, LiveTotals> Totals() const;
  // Objects that came to life and found no place.
  uint64_t dropped() const { return dropped_; }

 private:
  struct Owner {
    ThreadId thread{};
    StackId stack{};
    uint64_t sample_bytes = 0;  // in force when the object came
    friend bool operator==(const Owner&, const Owner&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const Owner& o) {
      return H::combine(std::move(h), o.thread, o.stack, o.sample_bytes);
    }
  };

  // Objects that are alike in all that counts.
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
    // The oldest first: jemalloc's frames need not tell apart all that ours do.
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

  // The heap of a place as `source` counts it: empty when it did not count before.
  Heap& HeapOf(const Place& place, const LiveSampling& source);
  std::optional<ObjectWeight> Take(Heap& heap, const Group& group);
  void Add(Heap& heap, const profd_live_heap_record& record, uint64_t sample_bytes);
  void Remove(Heap& heap, const profd_live_heap_record& record);
  // `count` objects more, or less.
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
