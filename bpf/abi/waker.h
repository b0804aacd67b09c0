/* The source `waker`: who ended a wait that the tick had seen. */
#ifndef PROFD_BPF_ABI_WAKER_H_
#define PROFD_BPF_ABI_WAKER_H_

#include "base.h"

/* A waker's stack begins with the names of its process and its thread, PROFD_COMM_LEN bytes each.
 * Both are empty if an interrupt ended the wait. They count as kernel frames.
 */
#define PROFD_WAKER_NAME_FRAMES 4

/* Cost of the program at wake-ups. Per CPU. */
struct profd_waker_cost {
	profd_u64 wakes; /* of threads with an account */
	profd_u64 timed, timed_ns; /* one in PROFD_COST_SAMPLE of those that no tick had seen */
	profd_u64 walks, walk_ns; /* those that ended a wait which a tick had seen */
};

#endif /* PROFD_BPF_ABI_WAKER_H_ */
