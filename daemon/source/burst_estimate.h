// From what a burst of tracing counted to what it stands for. docs/sampling.md has the formulas.
#ifndef PROFD_DAEMON_SOURCE_BURST_ESTIMATE_H_
#define PROFD_DAEMON_SOURCE_BURST_ESTIMATE_H_

#include <cstdint>
#include <map>

#include "bpf/abi.h"
#include "daemon/profile/profile.h"
#include "daemon/source/heap_accounts.h"
#include "daemon/source/malloc_bursts.h"

namespace profd {

// What the probes of a burst did to a thread.
struct BurstEffect {
  double correction = 1;  // how many times as much it would have done without them, 10 at most
  double doubt = 0;       // standard error of that, as a share of it
};

// `taken_ns` is what the probes took of the thread's time in a burst of `length_ns`: time in which
// it waits makes up for that.
BurstEffect EffectOf(const profd_malloc_thread& did, int64_t length_ns, double taken_ns);

// Adds what `burst` stands for to `delta`, as samples and ledgers, and to `totals`, by module.
void EstimateBurst(const BurstResult& burst, ProfileDelta& delta,
                   std::map<ModuleId, AllocatorTotals>& totals);

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_BURST_ESTIMATE_H_
