/* The source `cpu`: what threads run, by a clock that interrupts each CPU. */
#ifndef PROFD_BPF_ABI_CPU_H_
#define PROFD_BPF_ABI_CPU_H_

#include "base.h"

/* CPUs beyond these are not sampled. A power of two. */
#define PROFD_MAX_CPUS 4096

/* Cost of the clock's program. Per CPU. */
struct profd_cpu_cost {
	profd_u64 samples; /* runs in target threads */
	profd_u64 ns; /* of these; excludes the interrupt and entering the program */
};

#endif /* PROFD_BPF_ABI_CPU_H_ */
