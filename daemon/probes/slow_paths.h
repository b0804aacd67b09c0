// Probes in jemalloc's slow paths, beside those at its events, in modules in which some events run
// through code that was not found.
#ifndef PROFD_DAEMON_PROBES_SLOW_PATHS_H_
#define PROFD_DAEMON_PROBES_SLOW_PATHS_H_

#include <map>

#include "daemon/heap/jemalloc.h"
#include "daemon/probes/reconciler.h"
#include "daemon/probes/wanted.h"

namespace profd {

// Not thread-safe.
class SlowPathProbes {
 public:
  // `reconciler` must outlive this.
  explicit SlowPathProbes(Reconciler* reconciler) : reconciler_(reconciler) {}

  // From now on that module is watched, where `info` knows its functions. False: it is not, or is
  // so already.
  bool Watch(ModuleId module, const JemallocInfo& info);
  // Of a module that is not watched none are wanted.
  void Want(const ProbedModule& where);
  void Unwant(const ProbedModule& where);

  // They stand only while those at events do.
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
  std::map<ModuleId, ProbePlaces> modules_;  // null: no function is known
};

}  // namespace profd

#endif  // PROFD_DAEMON_PROBES_SLOW_PATHS_H_
