// What the programs at probes cost their targets.
#ifndef PROFD_DAEMON_SOURCE_PROBE_COST_H_
#define PROFD_DAEMON_SOURCE_PROBE_COST_H_

#include "bpf/abi.h"
#include "daemon/probes/trap.h"

namespace profd {

// What all runs have cost, the way into the program included, ns.
inline double ProbeInPathNs(const profd_heap_cost& cost, const Traps& traps) {
  return static_cast<double>(cost.ns + cost.walk_ns) + traps.Of(cost.events, cost.stepped);
}

// The way into the program and out of it, of a run since `last`, on the mean, ns.
inline double TrapNs(const profd_heap_cost& now, const profd_heap_cost& last, const Traps& traps) {
  const uint64_t runs = now.events - last.events;
  if (runs == 0) return traps.emulated;
  return traps.Of(runs, now.stepped - last.stepped) / static_cast<double>(runs);
}

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_PROBE_COST_H_
