/* What ticks note of a wait for the program that sees it end. */
#ifndef PROFD_BPF_WAITS_BPF_H_
#define PROFD_BPF_WAITS_BPF_H_

#include "kernel.h"
#include "abi.h"
#include "target.bpf.h"

/* The weight of a visit with a stride of 1, ns. Set by the daemon before a tick. */
profd_u64 tick_weight_ns __weak;

/* Another wait, or none: nothing was seen of it. */
static __always_inline void forget_wait(struct profd_thread *thread)
{
	*(volatile u64 *)&thread->wait_weight = 0;
	barrier();
}

/* A tick has seen the thread in a wait. A thread on the run queue waits for nobody. */
static __always_inline void note_wait(struct profd_thread *thread, u8 reason, u64 weight)
{
	if (reason == PROFD_REASON_RUNQUEUE)
		return;
	thread->wait_reason = reason;
	thread->wait_ticks++;
	barrier();
	__sync_fetch_and_add(&thread->wait_weight, weight);
}

/* Takes the weight of the wait that the thread is in; 0: no tick has seen it. What a tick adds too
 * late is of a wait that is over, which the number of switches tells.
 */
static __always_inline u64 take_wait(struct profd_thread *thread, struct task_struct *task)
{
	if (!*(volatile u64 *)&thread->wait_weight || thread->tick_switches != switches_of(task))
		return 0;
	return __sync_lock_test_and_set(&thread->wait_weight, 0);
}

#endif /* PROFD_BPF_WAITS_BPF_H_ */
