// Probes at the events of jemalloc. Finds out which places are wrong.
#ifndef PROFD_DAEMON_PROBES_JEMALLOC_EVENTS_H_
#define PROFD_DAEMON_PROBES_JEMALLOC_EVENTS_H_

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/functional/function_ref.h"
#include "bpf/abi.h"
#include "daemon/heap/jemalloc.h"
#include "daemon/kernel/kernel.h"
#include "daemon/probes/allocator_state.h"
#include "daemon/probes/reconciler.h"
#include "daemon/probes/wanted.h"

namespace profd {

// All places that look like an event. The number in a place's cookie is its index here.
struct EventPlaces {
  std::vector<ProbePlace> places;
  size_t more = 0;  // places beyond PROFD_HEAP_NUMBERS
};
EventPlaces EventPlacesOf(const JemallocInfo& info, WatchId module);

// Not thread-safe.
class JemallocEvents {
 public:
  // Both must outlive this.
  JemallocEvents(ProbeKernel* kernel, Reconciler* reconciler)
      : kernel_(kernel), reconciler_(reconciler) {}

  void Want(const ProbedModule& where, const JemallocInfo& info);
  void Unwant(const ProbedModule& where);
  // Forgets what was learned of other modules. No process may use them any more.
  void KeepOnly(absl::FunctionRef<bool(WatchId)> is_known);
  // Checks the hits of places that were found by their code. Places where no event occurs are not
  // wanted any more in any process.
  void Judge();

  // Fills in numbers of places, and a note if some have no probe.
  void Describe(WatchId module, AllocatorState& state) const;

 private:
  struct Module {
    EventPlaces all;
    std::bitset<PROFD_HEAP_NUMBERS> wrong;
    WantedProbes wanted;  // without the wrong ones
  };

  static void Choose(Module& module);

  ProbeKernel* const kernel_;
  Reconciler* const reconciler_;
  std::map<WatchId, Module> modules_;
  uint64_t refusals_ = 0;  // when places were last judged
};

}  // namespace profd

#endif  // PROFD_DAEMON_PROBES_JEMALLOC_EVENTS_H_
