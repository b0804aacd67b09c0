/* What ticks note of a wait for the program that sees it end. */
#ifndef PROFD_BPF_WAITS_BPF_H_
#define PROFD_BPF_WAITS_BPF_H_

#include "kernel.h"
#include "abi.h"
#include "target.bpf.h"

/* The weight of a visit with a stride of 1, ns. Set by the daemon before a tick. */
profd_u64 tick_weight_ns __weak;

/* By slot, whether the thread was woken since the daemon cleared it. */
profd_u8 woken[PROFD_SLOTS] __weak;

/* The weight of all ticks up to the present one, ns, and their number; and up to the one before.
 * Set by the daemon as a tick begins.
 */
profd_u64 quiet_sum_ns __weak;
profd_u64 quiet_sum_ns_before __weak;
profd_u32 quiet_sum_ticks __weak;
profd_u32 quiet_sum_ticks_before __weak;

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

/* From the next tick on the thread is not visited until it is woken. */
static __always_inline void begin_quiet(struct profd_thread *thread)
{
	thread->quiet_ns = quiet_sum_ns;
	thread->quiet_ticks = quiet_sum_ticks;
	barrier();
	*(volatile u32 *)&thread->quiet = 1;
}

/* The weight of the ticks, up to these sums, that found the thread where it was without a visit.
 * Only one of those who call it gets it.
 */
static __always_inline u64 end_quiet(struct profd_thread *thread, u64 sum_ns, u32 sum_ticks)
{
	s64 ns;

	if (!*(volatile u32 *)&thread->quiet || !__sync_lock_test_and_set(&thread->quiet, 0))
		return 0;
	ns = sum_ns - thread->quiet_ns;
	/* The tick in which it became quiet may not have counted after all. */
	if (ns <= 0)
		return 0;
	thread->wait_ticks += sum_ticks - thread->quiet_ticks;
	return ns;
}

/* Adds to the wait what ticks before this one saw of it without a visit. */
static __always_inline void note_quiet(struct profd_thread *thread)
{
	u64 weight = end_quiet(thread, quiet_sum_ns_before, quiet_sum_ticks_before);

	if (weight)
		__sync_fetch_and_add(&thread->wait_weight, weight);
}

/* The thread is about to be woken. */
static __always_inline void mark_woken(struct profd_thread *thread)
{
	u32 slot = *(volatile u32 *)&thread->slot & (PROFD_SLOTS - 1);

	/* Threads that are woken all the time only read: others' marks are next to theirs. */
	if (slot && !*(volatile u8 *)&woken[slot])
		*(volatile u8 *)&woken[slot] = 1;
}

/* Takes the weight of the wait that the thread is in; 0: no tick has seen it. What a tick adds too
 * late is of a wait that is over, which the number of switches tells.
 */
static __always_inline u64 take_wait(struct profd_thread *thread, struct task_struct *task)
{
	if (!*(volatile u64 *)&thread->wait_weight || thread->tick_switches != switches_of(task))
		return 0;
	return __sync_lock_test_and_set(&thread->wait_weight, 0) +
	       end_quiet(thread, quiet_sum_ns, quiet_sum_ticks);
}

#endif /* PROFD_BPF_WAITS_BPF_H_ */
