/* What programs at probes share. */
#ifndef PROFD_BPF_ABI_PROBE_H_
#define PROFD_BPF_ABI_PROBE_H_

#include "base.h"

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
