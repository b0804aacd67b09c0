// All probes in allocators and libcs of targets.
#ifndef PROFD_DAEMON_PROBES_TARGET_PROBES_H_
#define PROFD_DAEMON_PROBES_TARGET_PROBES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "daemon/base/clock.h"
#include "daemon/kernel/kernel.h"
#include "daemon/probes/allocator_state.h"
#include "daemon/probes/jemalloc_events.h"
#include "daemon/probes/kernel_hands.h"
#include "daemon/probes/live_objects.h"
#include "daemon/probes/malloc_burst.h"
#include "daemon/probes/map_calls.h"
#include "daemon/probes/reconciler.h"
#include "daemon/probes/slow_paths.h"
#include "daemon/probes/told_objects.h"
#include "daemon/target/modules.h"

namespace profd {

// Thread-safe. Only Await waits for the kernel to attach or detach probes.
class TargetProbes {
 public:
  // All must outlive this.
  TargetProbes(ProbeKernel* kernel, const Modules* modules, const Clock* clock);

  // A process of a target maps a module that contains an allocator or is a libc. May repeat.
  void OnMapped(int32_t pid, WatchId module);
  // A process executed another program. Its mappings are reported again.
  void OnExec(int32_t pid);
  // The current processes of all targets. Probes in others are detached.
  void KeepOnly(const std::set<int32_t>& pids);
  // Forgets what was learned of modules that `modules` no longer knows.
  void KeepKnownModules();
  // Detaches all probes, or attaches them again.
  void SetOn(bool on) { reconciler_.SetOn(on); }
  // The same for probes at jemalloc's events. Those at sampled objects stay attached: the live heap
  // must be followed without a break.
  void SetEventsOn(bool on);
  void SetSlowPathsOn(bool on);
  void SetMapCallsOn(bool on);
  void SetToldOn(bool on);
  // Some events of this allocator run through code that was not found: watches its slow path in all
  // processes, if its functions are known. May repeat.
  void WatchSlowPaths(WatchId module);
  // Detaches probes from places that look like an event by their code but are none by their hits.
  void JudgePlaces();
  // Reads the processes' profiling settings again.
  void Refresh();
  // Wants the probes in the libcs of young processes, too.
  void GrowUp();
  // Waits until the wanted probes of `last` and of the sets of higher priority are attached. False
  // if `deadline_ns` (by the clock) passes before.
  bool Await(ProbeSet last, int64_t deadline_ns) const {
    return reconciler_.Await(last, deadline_ns);
  }

  // An allocator's events are watched somewhere, now or in slices.
  bool watching() const;
  MapCallState MapCalls() const;
  std::vector<AllocatorState> States() const;
  // Empty if the live heap is not counted there.
  std::optional<LiveSampling> LiveSourceOf(const ProbedModule& where) const;
  std::map<ProbedModule, LiveSampling> LiveSources() const;
  // A process reported an object. From now on its allocators are not watched otherwise. Empty if
  // the objects are not counted.
  std::optional<LiveSampling> OnTold(const ProbedModule& where);
  std::map<ProbedModule, LiveSampling> ToldSources() const;
  // The process reported an object since its last exec.
  bool HasTold(int32_t pid) const;
  // What entering and leaving a program at a probe costs.
  Traps traps() const { return hands_.traps(); }
  MallocBurstProbes* bursts() { return &bursts_; }

 private:
  // What of a module a process uses.
  struct Uses {
    bool jemalloc = false;
    bool told = false;
  };

  void WantJemalloc(const ProbedModule& where, const JemallocInfo& info)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  AllocatorState DescribeJemalloc(WatchId module, const std::set<int32_t>& pids) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  AllocatorState DescribeTold(WatchId module, const std::set<int32_t>& pids) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Modules* const modules_;
  LiveSettings settings_;
  KernelHands hands_;
  Reconciler reconciler_;
  MallocBurstProbes bursts_;

  mutable absl::Mutex mutex_;
  JemallocEvents events_ ABSL_GUARDED_BY(mutex_);
  SlowPathProbes slow_paths_ ABSL_GUARDED_BY(mutex_);
  LiveObjects live_ ABSL_GUARDED_BY(mutex_);
  ToldObjects told_ ABSL_GUARDED_BY(mutex_);
  MapCallProbes map_calls_ ABSL_GUARDED_BY(mutex_);
  std::map<ProbedModule, Uses> allocators_ ABSL_GUARDED_BY(mutex_);
  std::set<int32_t> heard_ ABSL_GUARDED_BY(mutex_);  // processes that reported an object
};

}  // namespace profd

#endif  // PROFD_DAEMON_PROBES_TARGET_PROBES_H_
