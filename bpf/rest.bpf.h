/* Threads that stay in one wait from drain to drain: nothing changes but the time, which the daemon
 * can tell by itself. Drains leave them out, and count them.
 */
#ifndef PROFD_BPF_REST_BPF_H_
#define PROFD_BPF_REST_BPF_H_

#include "kernel.h"
#include "abi.h"
#include "target.bpf.h"

/* Whether a drain writes of threads at rest, too. Set by the daemon before it. */
profd_u32 drain_all __weak;

/* Off its CPU in a wait, and not being woken. */
static __always_inline bool sleeps(u32 state, u32 on_cpu)
{
	return !on_cpu && state & TASK_ASLEEP && !(state & (TASK_DEAD | TASK_WAKING | TASK_NEW));
}

/* Makes `rest` the memory of what is about to be read. */
static __always_inline void begin_rest(struct profd_rest *rest, struct task_struct *task,
				       struct profd_thread *thread)
{
	rest->known = 0;
	rest->switches = switches_of(task);
	rest->seq = *(volatile u32 *)&thread->seq;
	barrier();
}

/* Whether the thread has slept since begin_rest, so that what was read stays true. */
static __always_inline bool slept_since(const struct profd_rest *rest, struct task_struct *task,
					struct profd_thread *thread)
{
	barrier();
	if (rest->seq != *(volatile u32 *)&thread->seq || rest->switches != switches_of(task))
		return false;
	barrier();
	return sleeps(task->__state, task->on_cpu);
}

/* Whether the thread is in the wait still in which a drain wrote of it. */
static __always_inline bool still_rests(const struct profd_rest *rest, struct task_struct *task,
					struct profd_thread *thread)
{
	return !drain_all && rest->known && slept_since(rest, task, thread);
}

#endif /* PROFD_BPF_REST_BPF_H_ */
