// Probes in jemalloc's slow paths, for modules in which some events run through code that was not
// found.
#ifndef PROFD_DAEMON_PROBES_SLOW_PATHS_H_
#define PROFD_DAEMON_PROBES_SLOW_PATHS_H_

#include <map>

#include "absl/functional/function_ref.h"
#include "daemon/heap/jemalloc.h"
#include "daemon/probes/reconciler.h"
#include "daemon/probes/wanted.h"

namespace profd {

// Not thread-safe.
class SlowPathProbes {
 public:
  // `reconciler` must outlive this.
  explicit SlowPathProbes(Reconciler* reconciler) : reconciler_(reconciler) {}

  // Starts to watch the module, if `info` has its slow paths. False if it has none or the module is
  // watched already.
  bool Watch(WatchId module, const JemallocInfo& info);
  // No-op for a module that is not watched.
  void Want(const ProbedModule& where);
  void Unwant(const ProbedModule& where);
  // Forgets other modules. No process may use them any more.
  void KeepOnly(absl::FunctionRef<bool(WatchId)> is_known) {
    std::erase_if(modules_, [&](const auto& entry) { return !is_known(entry.first); });
  }

  // They are attached only while the probes at events are.
  void SetOn(bool on) { Apply(on_ = on, events_on_); }
  void SetEventsOn(bool on) { Apply(on_, events_on_ = on); }

 private:
  void Apply(bool on, bool events_on) {
    reconciler_->SetPresence(ProbeSet::kSlowPaths,
                             on && events_on ? Presence::kPresent : Presence::kBetween);
  }

  Reconciler* const reconciler_;
  bool on_ = true;
  bool events_on_ = true;
  std::map<WatchId, ProbePlaces> modules_;  // null: no function is known
};

}  // namespace profd

#endif  // PROFD_DAEMON_PROBES_SLOW_PATHS_H_
