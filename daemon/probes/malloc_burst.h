// Probes at glibc's malloc, attached to some processes during a burst of tracing.
#ifndef PROFD_DAEMON_PROBES_MALLOC_BURST_H_
#define PROFD_DAEMON_PROBES_MALLOC_BURST_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "daemon/heap/glibc.h"
#include "daemon/kernel/kernel.h"
#include "daemon/probes/reconciler.h"
#include "daemon/probes/trap.h"
#include "daemon/probes/wanted.h"

namespace profd {

// Thread-safe, except MeasureTraps, PutIn and TakeOut, which one thread calls. The reconciler is
// told of processes that exit.
class MallocBurstProbes {
 public:
  // Both must outlive this.
  MallocBurstProbes(ProbeKernel* kernel, Reconciler* reconciler)
      : kernel_(kernel), reconciler_(reconciler) {}

  // A process maps a module with glibc's malloc. May repeat.
  void OnMapped(const ProbedModule& where, const GlibcInfo& info);
  // Processes with glibc's malloc, and why attaching failed; empty if it did not.
  std::map<ProbedModule, std::string> Places() const;
  // Without bursts no guard stays in the kernel.
  void SetOn(bool on) {
    reconciler_->SetPresence(ProbeSet::kBurst, on ? Presence::kPresent : Presence::kOff);
  }

  // Attaches the probes and waits for that. Returns in how many of these they are attached.
  size_t PutIn(const std::vector<ProbedModule>& where);
  // Detaches them and waits for that. False if a pause had detached them before.
  bool TakeOut(const std::vector<ProbedModule>& where);

  // What entering and leaving the program costs now.
  Traps MeasureTraps();

 private:
  std::vector<ProbeKey> KeysOf(const std::vector<ProbedModule>& where) const;

  ProbeKernel* const kernel_;
  Reconciler* const reconciler_;
  absl::Mutex mutex_;
  std::map<WatchId, ProbePlaces> modules_ ABSL_GUARDED_BY(mutex_);
  uint64_t breaks_ = 0;  // when the last burst began
  // Created by the first MeasureTraps.
  std::optional<TrapGauge> emulated_, stepped_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_PROBES_MALLOC_BURST_H_
