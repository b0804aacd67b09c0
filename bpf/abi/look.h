/* Looks: what every thread of the targets does now. */
#ifndef PROFD_BPF_ABI_LOOK_H_
#define PROFD_BPF_ABI_LOOK_H_

#include "base.h"
#include "thread.h"
#include "wait.h"

/* What a look found of a thread. Its stack follows as a struct profd_stack_record, without frames
 * for a thread that runs; then, if `object` is set, what it waits for, which is kept the same way.
 */
struct profd_look {
	struct profd_visit visit; /* outcome: RUNNING or NEW */
	profd_u64 now; /* when it was looked at */
	profd_u64 since; /* when the wait, the queueing or the run began; 0: not known */
	profd_u64 start; /* the thread's, CLOCK_BOOTTIME */
	profd_u64 process_start; /* its leader's */
	profd_u64 object; /* hash of a struct profd_object; 0: not known */
	profd_s32 pid; /* in the daemon's PID namespace; 0 = not visible there */
	profd_s32 tid;
	profd_u32 target_id;
	profd_u8 names_object; /* visit.arg0 is what the system call waits for */
	profd_u8 pad[3];
	char comm[PROFD_COMM_LEN];
	char process[PROFD_COMM_LEN]; /* comm of the thread-group leader */
};

PROFD_STATIC_ASSERT(sizeof(struct profd_look) == sizeof(struct profd_visit) + 88, "look size");

#endif /* PROFD_BPF_ABI_LOOK_H_ */
