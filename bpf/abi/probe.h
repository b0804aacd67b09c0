/* What programs at probes share. */
#ifndef PROFD_BPF_ABI_PROBE_H_
#define PROFD_BPF_ABI_PROBE_H_

#include "base.h"

/* The cookie of any probe: place:4 | stepped:1 << 4 | module id:16 << 8. Place: in the enum of its
 * program. Stepped: the kernel does not emulate the instruction. Module: that the place lies in, or
 * 0. The other bits are the program's own.
 */
#define PROFD_PROBE_COOKIE(place, stepped, module)                                                 \
	((profd_u64)(place) | (profd_u64)(stepped) << 4 | (profd_u64)(module) << 8)
#define PROFD_PROBE_PLACE(cookie) ((profd_u32)(cookie) & 15)
#define PROFD_PROBE_STEPPED(cookie) ((profd_u32)((cookie) >> 4) & 1)
#define PROFD_PROBE_MODULE(cookie) ((profd_u32)((cookie) >> 8) & 0xffff)

/* Cost of the programs at probes: every run is timed. Per CPU. */
struct profd_heap_cost {
	profd_u64 events; /* runs in threads of targets */
	profd_u64 stepped; /* of these, where the kernel does not emulate the instruction */
	profd_u64 walks; /* of the runs, with a stack */
	profd_u64 ns; /* of the runs without a stack; without the way into the program and out */
	profd_u64 walk_ns; /* of those with one */
	profd_u64 closed; /* of the runs, while other probes were still to come or to go */
};

#endif /* PROFD_BPF_ABI_PROBE_H_ */
