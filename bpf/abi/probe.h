/* Shared by programs at probes. */
#ifndef PROFD_BPF_ABI_PROBE_H_
#define PROFD_BPF_ABI_PROBE_H_

#include "base.h"

/* Cost of programs at probes. Every run is timed. Per CPU. */
struct profd_heap_cost {
	profd_u64 events; /* runs in target threads */
	profd_u64 stepped; /* of these, on an instruction that the kernel does not emulate */
	profd_u64 walks; /* of the runs, those with a stack */
	profd_u64 ns; /* of runs without a stack; excludes entering and leaving the program */
	profd_u64 walk_ns; /* of runs with a stack */
	profd_u64 closed; /* of the runs, those while probes were being attached or detached */
};

#endif /* PROFD_BPF_ABI_PROBE_H_ */
