/* The source `waker`: who ended a wait that the tick had seen. */
#ifndef PROFD_BPF_ABI_WAKER_H_
#define PROFD_BPF_ABI_WAKER_H_

#include "base.h"

/* A waker's stack begins with the names of its process and its thread, PROFD_COMM_LEN bytes each.
 * Both are empty if an interrupt ended the wait. They count as kernel frames.
 */
#define PROFD_WAKER_NAME_FRAMES 4

/* How a wait ended. */
enum profd_wait_end {
	PROFD_END_UNKNOWN = 0,
	PROFD_END_WOKEN = 1, /* by somebody, on purpose */
	PROFD_END_TIMEOUT = 2, /* at its deadline */
	PROFD_END_SIGNAL = 3,
	PROFD_END_COUNT = 4,
};

/* Waits that ended, of those for locks that a tick had seen, have counters of kind
 * PROFD_KIND_ENDED. `stack` and `arg0` of the key are those of the wait, `sysno` holds the system
 * call, the bucket of the duration (duration.h) and how it ended.
 */
#define PROFD_ENDED(sysno, bucket, end)                                                            \
	((profd_s32)(((sysno) & 0xffff) | (bucket) << 16 | (end) << 24))
#define PROFD_ENDED_SYSNO(ended) ((profd_s32)(short)((ended) & 0xffff))
#define PROFD_ENDED_BUCKET(ended) ((profd_u32)(ended) >> 16 & 0xff)
#define PROFD_ENDED_END(ended) ((profd_u32)(ended) >> 24 & 0xff)

/* A wait stands for weight / duration waits. `weight` of the counter is the sum of that, `count`
 * the sum of its squares, both times this. One wait stands for PROFD_ENDED_MOST at most.
 */
#define PROFD_ENDED_ONE 256
#define PROFD_ENDED_MOST (1 << 20)

/* Cost of the program at wake-ups. Per CPU. */
struct profd_waker_cost {
	profd_u64 wakes; /* of threads with an account */
	profd_u64 timed, timed_ns; /* one in PROFD_COST_SAMPLE of those that no tick had seen */
	profd_u64 walks, walk_ns; /* those that ended a wait which a tick had seen */
};

#endif /* PROFD_BPF_ABI_WAKER_H_ */
