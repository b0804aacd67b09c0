// Estimates totals from the calls counted in a burst. docs/sampling.md has the formulas.
#ifndef PROFD_DAEMON_SOURCE_BURST_ESTIMATE_H_
#define PROFD_DAEMON_SOURCE_BURST_ESTIMATE_H_

#include <cstdint>
#include <map>

#include "bpf/abi.h"
#include "daemon/profile/profile.h"
#include "daemon/source/heap_accounts.h"
#include "daemon/source/malloc_bursts.h"

namespace profd {

// The effect of the probes of a burst on a thread.
struct BurstEffect {
  double correction = 1;  // the factor by which it would have done more without them, at most 10
  double doubt = 0;       // standard error of the factor
};

// `taken_ns`: the time that the probes took from the thread in a burst of `length_ns`. It is made
// up for by the time in which the thread waits.
BurstEffect EffectOf(const profd_malloc_thread& did, int64_t length_ns, double taken_ns);

// Adds the estimates from `burst` to `delta`, as samples and ledgers, and to `totals`, by module.
void EstimateBurst(const BurstResult& burst, ProfileDelta& delta,
                   std::map<WatchId, AllocatorTotals>& totals);

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_BURST_ESTIMATE_H_
