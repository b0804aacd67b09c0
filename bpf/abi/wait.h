/* The source `wait`: visits of the tick. */
#ifndef PROFD_BPF_ABI_WAIT_H_
#define PROFD_BPF_ABI_WAIT_H_

#include "base.h"

/* What a visit of the tick found. */
enum profd_visit_outcome {
	PROFD_VISIT_NONE = 0,
	PROFD_VISIT_GONE = 1, /* no such thread any more */
	PROFD_VISIT_RUNNING = 2, /* on a CPU: no sample */
	PROFD_VISIT_SAME = 3, /* in the wait of the visit before */
	PROFD_VISIT_NEW = 4, /* in another wait */
	PROFD_VISIT_STILL = 5, /* asleep since the last sample, which is not written again */
};

/* A thread to visit, and what the tick found there. Without a sample the rest has no meaning. */
struct profd_visit {
	profd_u64 thread_id; /* written by the daemon */
	profd_u64 stack; /* hash of a stack record */
	profd_u64 arg0; /* first argument of the system call */
	profd_s32 kernel_tid; /* written by the daemon */
	profd_s32 sysno; /* -1: not in a system call */
	profd_u8 reason; /* enum profd_reason */
	profd_u8 outcome; /* enum profd_visit_outcome */
	profd_u8 known; /* written by the daemon: it keeps the last sample */
	profd_u8 followed; /* by the per-switch program: PROFD_FOLLOWED, PROFD_FOLLOWED_LATE */
	profd_u32 stride; /* written by the daemon: ticks that the visit stands for */
	profd_u32 slot; /* written by the daemon: of `woken`; 0: none */
	profd_u32 quiet; /* written by the daemon: it may become quiet. It does if this is still 1
			    after the visit and the outcome is PROFD_VISIT_STILL */
	profd_u64 since; /* when the wait began, where that is known exactly; else 0 */
};
#define PROFD_MAX_VISITS 4096

/* A quiet thread sleeps, and each wake-up is noted: ticks know that it is where it was without a
 * visit. So many threads can be; a power of two.
 */
#define PROFD_SLOTS 32768

/* The per-switch program sees the end of the thread's waits; it has not seen the begin of this one.
 */
#define PROFD_FOLLOWED 1
#define PROFD_FOLLOWED_LATE 2

/* A new thread. It lies at number % PROFD_MAX_BORN; number is 0 while it is written. */
struct profd_born {
	profd_u64 number; /* of births that were listed, from 1 on */
	profd_u64 thread_id;
	profd_s32 kernel_tid;
	profd_u32 pad;
};
#define PROFD_MAX_BORN 8192

/* What the tick did; a single entry, cumulative. */
struct profd_tick_stats {
	profd_u64 tasks; /* target threads looked at */
	profd_u64 off_cpu; /* of these, not running */
	profd_u64 walks; /* stacks walked */
	profd_u64 repeats; /* same wait as before: counted without a walk */
	profd_u64 torn;
	profd_u64 user_frames;
	profd_u64 frame_pointer_frames;
};

PROFD_STATIC_ASSERT(sizeof(struct profd_visit) == 56, "visit size");
PROFD_STATIC_ASSERT(sizeof(struct profd_born) == 24, "born size");

#endif /* PROFD_BPF_ABI_WAIT_H_ */
