// Probes at libc functions that change the address space.
#ifndef PROFD_DAEMON_PROBES_MAP_CALLS_H_
#define PROFD_DAEMON_PROBES_MAP_CALLS_H_

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "daemon/heap/map_calls.h"
#include "daemon/probes/allocator_state.h"
#include "daemon/probes/reconciler.h"
#include "daemon/probes/wanted.h"

namespace profd {

// Not thread-safe. Probes are wanted in processes that exist at two calls of KeepOnly. Short-lived
// processes are not worth it.
class MapCallProbes {
 public:
  // `reconciler` must outlive this.
  explicit MapCallProbes(Reconciler* reconciler) : reconciler_(reconciler) {}

  // May repeat.
  void OnMapped(const ProbedModule& where, const std::vector<MapCall>& calls);
  void Forget(int32_t pid);
  void KeepOnly(const std::set<int32_t>& pids);
  // Does not wait for KeepOnly.
  void GrowUp();
  void SetOn(bool on) {
    reconciler_->SetPresence(ProbeSet::kMapCalls, on ? Presence::kPresent : Presence::kBetween);
  }
  MapCallState State() const;

 private:
  void Want(const ProbedModule& where);

  Reconciler* const reconciler_;
  std::map<WatchId, ProbePlaces> modules_;
  std::map<ProbedModule, bool> young_;  // true: existed at one KeepOnly
};

}  // namespace profd

#endif  // PROFD_DAEMON_PROBES_MAP_CALLS_H_
