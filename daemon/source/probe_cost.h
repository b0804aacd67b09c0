// The cost of programs at probes for their targets.
#ifndef PROFD_DAEMON_SOURCE_PROBE_COST_H_
#define PROFD_DAEMON_SOURCE_PROBE_COST_H_

#include "bpf/abi.h"
#include "daemon/probes/trap.h"

namespace profd {

// Total time of all runs, including entering and leaving the program, ns.
inline double ProbeInPathNs(const profd_probe_cost& cost, const Traps& traps) {
  return static_cast<double>(cost.ns + cost.walk_ns) + traps.Of(cost.events, cost.stepped);
}

// Mean time to enter and leave the program in the runs since `last`, ns.
inline double TrapNs(const profd_probe_cost& now, const profd_probe_cost& last,
                     const Traps& traps) {
  const uint64_t runs = now.events - last.events;
  if (runs == 0) return traps.emulated;
  return traps.Of(runs, now.stepped - last.stepped) / static_cast<double>(runs);
}

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_PROBE_COST_H_
