/* Shared by programs at probes. */
#ifndef PROFD_BPF_ABI_PROBE_H_
#define PROFD_BPF_ABI_PROBE_H_

#include "base.h"

/* Cookie of every probe: place:4 | stepped:1 << 4 | watch id of its module:16 << 8 (0: none). The
 * place is in the enum of the probe's program. Stepped: the kernel does not emulate the instruction
 * but single-steps a copy of it, which takes longer. Programs may use the other bits.
 */
#define PROFD_PROBE_COOKIE(place, stepped, watch)                                                  \
	((profd_u64)(place) | (profd_u64)(stepped) << 4 | (profd_u64)(watch) << 8)
#define PROFD_PROBE_PLACE(cookie) ((profd_u32)(cookie) & 15)
#define PROFD_PROBE_STEPPED(cookie) ((profd_u32)((cookie) >> 4) & 1)
#define PROFD_PROBE_WATCH(cookie) ((profd_u32)((cookie) >> 8) & 0xffff)

/* Cost of programs at probes. Every run is timed. Per CPU. */
struct profd_probe_cost {
	profd_u64 events; /* runs in target threads */
	profd_u64 stepped; /* of these, on an instruction that the kernel does not emulate */
	profd_u64 walks; /* of the runs, those with a stack */
	profd_u64 ns; /* of runs without a stack; excludes entering and leaving the program */
	profd_u64 walk_ns; /* of runs with a stack */
	profd_u64 closed; /* of the runs, those while probes were being attached or detached */
};

#endif /* PROFD_BPF_ABI_PROBE_H_ */
