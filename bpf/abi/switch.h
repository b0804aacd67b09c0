/* The source `switch`: its cost. */
#ifndef PROFD_BPF_ABI_SWITCH_H_
#define PROFD_BPF_ABI_SWITCH_H_

#include "base.h"

/* Cost of the per-switch program: one run in PROFD_COST_SAMPLE, at random, is timed. Per CPU. */
#define PROFD_COST_SAMPLE_BITS 6
#define PROFD_COST_SAMPLE (1 << PROFD_COST_SAMPLE_BITS)
struct profd_switch_cost {
	profd_u64 timed;
	profd_u64 timed_ns;
};

#endif /* PROFD_BPF_ABI_SWITCH_H_ */
