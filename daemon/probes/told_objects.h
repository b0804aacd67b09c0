// USDT probes through which an allocator reports the objects that it samples.
#ifndef PROFD_DAEMON_PROBES_TOLD_OBJECTS_H_
#define PROFD_DAEMON_PROBES_TOLD_OBJECTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "daemon/heap/usdt.h"
#include "daemon/kernel/kernel.h"
#include "daemon/probes/allocator_state.h"
#include "daemon/probes/reconciler.h"
#include "daemon/probes/wanted.h"

namespace profd {

// Not thread-safe.
class ToldObjects {
 public:
  // Both must outlive this.
  ToldObjects(ProbeKernel* kernel, Reconciler* reconciler)
      : kernel_(kernel), reconciler_(reconciler) {}

  void Want(const ProbedModule& where, const OtelMemory& info);
  void SetOn(bool on) {
    reconciler_->SetPresence(ProbeSet::kTold, on ? Presence::kPresent : Presence::kBetween);
  }

  // Empty if the objects are not counted there.
  std::optional<LiveSampling> SourceOf(const ProbedModule& where) const;
  std::map<ProbedModule, LiveSampling> Sources() const;
  std::optional<ProbeState> StateOf(const ProbedModule& where) const;
  // Probes were attached somewhere.
  bool watching() const { return reconciler_->Count(ProbeSet::kTold).stood > 0; }

 private:
  absl::StatusOr<std::vector<ProbePlace>> PlacesOf(const OtelMemory& info, WatchId module) const;

  ProbeKernel* const kernel_;
  Reconciler* const reconciler_;
  std::map<WatchId, WantedProbes> modules_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_PROBES_TOLD_OBJECTS_H_
