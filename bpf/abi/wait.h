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
};

/* A thread to be visited by the next tick; written by the daemon, the outcome by the tick. */
struct profd_visit {
	profd_u64 thread_id;
	profd_u64 weight_ns; /* of the sample that is found */
	profd_s32 kernel_tid;
	profd_u32 outcome; /* enum profd_visit_outcome */
};
#define PROFD_MAX_VISITS 4096

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

PROFD_STATIC_ASSERT(sizeof(struct profd_visit) == 24, "visit size");

#endif /* PROFD_BPF_ABI_WAIT_H_ */
