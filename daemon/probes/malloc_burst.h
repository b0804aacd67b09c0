// Probes at glibc's malloc, which stand in some processes while a burst of tracing lasts.
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

// Thread-safe, but for MeasureTraps. Who is told of processes that go is the reconciler.
class MallocBurstProbes {
 public:
  // Both must outlive this.
  MallocBurstProbes(ProbeKernel* kernel, Reconciler* reconciler)
      : kernel_(kernel), reconciler_(reconciler) {}

  // A process maps a module that holds glibc's malloc: its probes are wanted in bursts. May repeat.
  void OnMapped(const ProbedModule& where, const GlibcInfo& info);
  // The processes that run glibc's malloc, and why the last burst had no probes there; empty where
  // it had, or would have.
  std::map<ProbedModule, std::string> Places() const;
  // Without bursts nothing of them stays in the kernel.
  void SetOn(bool on) {
    reconciler_->SetPresence(ProbeSet::kBurst, on ? Presence::kPresent : Presence::kOff);
  }

  // Puts probes in, and returns when they stand; the number of places where they do.
  size_t PutIn(const std::vector<ProbedModule>& where);
  // Takes them out, and returns when they are. False: some had been out meanwhile.
  bool TakeOut(const std::vector<ProbedModule>& where);

  // What the way into the program takes at present; for one thread.
  Traps MeasureTraps();

 private:
  std::vector<ProbeKey> KeysOf(const std::vector<ProbedModule>& where) const;

  ProbeKernel* const kernel_;
  Reconciler* const reconciler_;
  absl::Mutex mutex_;
  std::map<ModuleId, ProbePlaces> modules_ ABSL_GUARDED_BY(mutex_);
  uint64_t breaks_ = 0;  // as the last burst began
  // From the first time that there is something to trace.
  std::optional<TrapGauge> emulated_, stepped_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_PROBES_MALLOC_BURST_H_
