/* The source `switch_stack`: stacks of context switches. */
#ifndef PROFD_BPF_ABI_SWITCH_STACK_H_
#define PROFD_BPF_ABI_SWITCH_STACK_H_

#include "base.h"

/* After so many stacks since the last drain, a CPU takes a quarter of what it took before; after as
 * many more a quarter of that, and so on.
 */
#define PROFD_SWITCH_STACKS 64
/* Beyond one stack in 2 to this power, fewer would save nothing. */
#define PROFD_SWITCH_STACK_SHIFT 20

/* Cost of the program. Per CPU. */
struct profd_switch_stack_cost {
	profd_u64 switches; /* that the samples stand for */
	profd_u64 samples, ns; /* excludes entering the program */
};

#endif /* PROFD_BPF_ABI_SWITCH_STACK_H_ */
