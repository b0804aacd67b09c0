// All probes in allocators and libcs of targets: which process runs which, and what is wanted
// there.
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

// Thread-safe. Nothing here waits for the kernel to put probes in or to take them out, but for
// WaitIdle.
class TargetProbes {
 public:
  // All must outlive this.
  TargetProbes(ProbeKernel* kernel, const Modules* modules, const Clock* clock);

  // A process of a target maps a module that holds an allocator, or is a libc. May repeat.
  void OnMapped(int32_t pid, ModuleId module);
  // A process became another program: it maps what it is told of from now on.
  void OnExec(int32_t pid);
  // The processes of all targets, as they are now: probes in others go.
  void KeepOnly(const std::set<int32_t>& pids);
  // Takes all probes out, or puts them back. Where they stood they will stand again.
  void SetOn(bool on) { reconciler_.SetOn(on); }
  // The same of those at the allocators' events only; those at sampled objects stay, as what is
  // live can be followed without a break only.
  void SetEventsOn(bool on);
  void SetSlowPathsOn(bool on);
  void SetMapCallsOn(bool on);
  void SetToldOn(bool on);
  // Events of that allocator run through code that was not found: its slow path is watched from now
  // on, in all processes, where its functions are known. May repeat.
  void WatchSlowPaths(ModuleId module);
  // Looks at what came by at the places that code alone said to be an event's, and takes the probes
  // out of those that are none.
  void JudgePlaces();
  // Reads again what the processes say of their sampling: they may have changed it.
  void Refresh();
  // Waits until everything asked for so far is done, the calls of libcs in young processes too, but
  // not beyond `deadline_ns` (by the clock), and for those calls not beyond `map_calls_ns`.
  void WaitIdle(int64_t deadline_ns, int64_t map_calls_ns);

  // A probe stands at an allocator's events somewhere, or will when they are put back.
  bool watching() const;
  MapCallState MapCalls() const;
  std::vector<AllocatorState> States() const;
  // What counts the live heap there; empty when nothing does.
  std::optional<LiveSampling> LiveSourceOf(const ProbedModule& where) const;
  std::map<ProbedModule, LiveSampling> LiveSources() const;
  // An object was told of: from now on nothing else is asked of the allocators of that process.
  // What counts the objects there; empty when nothing does.
  std::optional<LiveSampling> OnTold(const ProbedModule& where);
  std::map<ProbedModule, LiveSampling> ToldSources() const;
  // Such an object was told of since the process runs its program.
  bool HasTold(int32_t pid) const;
  // As measured on functions of our own, before the first probe.
  Traps traps() const { return hands_.traps(); }
  MallocBurstProbes* bursts() { return &bursts_; }

 private:
  // What of a module is used by a process.
  struct Uses {
    bool jemalloc = false;
    bool told = false;
  };

  void WantJemalloc(const ProbedModule& where, const JemallocInfo& info)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  AllocatorState DescribeJemalloc(ModuleId module, const std::set<int32_t>& pids) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  AllocatorState DescribeTold(ModuleId module, const std::set<int32_t>& pids) const
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
  std::set<int32_t> heard_ ABSL_GUARDED_BY(mutex_);  // processes that told of an object
};

}  // namespace profd

#endif  // PROFD_DAEMON_PROBES_TARGET_PROBES_H_
