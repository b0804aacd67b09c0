/* Threads that stay in one wait from drain to drain. Only the time changes, which the daemon can
 * compute itself. Drains skip and count them.
 */
#ifndef PROFD_BPF_REST_BPF_H_
#define PROFD_BPF_REST_BPF_H_

#include "kernel.h"
#include "abi.h"
#include "target.bpf.h"

/* Whether the next drain includes threads at rest. Set by the daemon. */
profd_u32 drain_all __weak;

/* Off CPU in a wait, and not being woken. */
static __always_inline bool sleeps(u32 state, u32 on_cpu)
{
	return !on_cpu && state & TASK_ASLEEP && !(state & (TASK_DEAD | TASK_WAKING | TASK_NEW));
}

/* Notes in `rest` the state of the thread that is about to be read. */
static __always_inline void begin_rest(struct profd_rest *rest, struct task_struct *task,
				       struct profd_thread *thread)
{
	rest->known = 0;
	rest->switches = switches_of(task);
	rest->seq = *(volatile u32 *)&thread->seq;
	barrier();
}

/* Whether the thread has slept since begin_rest, so that the reading is still valid. */
static __always_inline bool slept_since(const struct profd_rest *rest, struct task_struct *task,
					struct profd_thread *thread)
{
	barrier();
	if (rest->seq != *(volatile u32 *)&thread->seq || rest->switches != switches_of(task))
		return false;
	barrier();
	return sleeps(task->__state, task->on_cpu);
}

/* Whether the thread is still in the wait that a drain has already reported. */
static __always_inline bool still_rests(const struct profd_rest *rest, struct task_struct *task,
					struct profd_thread *thread)
{
	return !drain_all && rest->known && slept_since(rest, task, thread);
}

#endif /* PROFD_BPF_REST_BPF_H_ */
