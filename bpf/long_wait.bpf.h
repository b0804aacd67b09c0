/* Single waits that were long. The switch program knows how long a wait took, a tick where it was.
 */
#ifndef PROFD_BPF_LONG_WAIT_BPF_H_
#define PROFD_BPF_LONG_WAIT_BPF_H_

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "abi.h"
#include "loss.bpf.h"
#include "news.bpf.h"
#include "target.bpf.h"

/* By enum profd_long_wait_class, from which duration on waits are told of, ns. 0: not at all. Set
 * by the daemon.
 */
profd_u64 long_wait_ns[PROFD_LONG_WAIT_CLASSES];

/* Until when the waits that were told of are paid for. */
profd_u64 long_waits_paid;

/* What is armed within so many ns of a wait's begin may have been armed in the middle of it: the
 * distance of the clocks is not exact.
 */
#define LONG_WAIT_ARMED_NS 100000

/* A wait of a known length that ends, as the ledger had it. */
struct ended_wait {
	u64 since; /* scheduler's clock */
	s64 ns;
	u32 reason; /* enum profd_reason */
};

static __always_inline bool is_long(const struct ended_wait *wait)
{
	u64 least = long_wait_ns[PROFD_LONG_WAIT_CLASS(wait->reason)];

	return wait->ns >= (s64)least && least && wait->reason != PROFD_REASON_RUNQUEUE;
}

/* Whether a wait that seems to begin here may have begun before the ledger was armed. */
static __always_inline bool began_unseen(struct profd_thread *thread, u64 begin)
{
	return (s64)(begin - thread->armed_at) <= LONG_WAIT_ARMED_NS;
}

/* Tells of a wait after which the thread ran and now leaves its CPU. */
static __always_inline void tell_long_wait(struct task_struct *task, struct profd_thread *thread,
					   const struct ended_wait *wait)
{
	/* The switch that ends the run is the next one after those that the tick saw. */
	bool seen = thread->tick_switches + 1 == switches_of(task) && thread->tick_stack;
	struct profd_long_wait_record *record = NULL;

	if (is_known(thread) &&
	    spend(&long_waits_paid, PROFD_LONG_WAIT_BURST, 1000000000 / PROFD_LONG_WAITS_A_SECOND))
		record = bpf_ringbuf_reserve(&events, sizeof(*record), 0);
	if (!record) {
		lose(PROFD_LOSS_LONG_WAIT, 1);
		return;
	}
	record->type = PROFD_RECORD_LONG_WAIT;
	record->reason = wait->reason;
	record->pad = 0;
	record->thread_id = thread->thread_id;
	record->begin = wait->since + clock_distance;
	record->earlier = began_unseen(thread, record->begin);
	record->duration = wait->ns;
	record->stack = seen ? thread->tick_stack : 0;
	record->waker = seen ? thread->wait_waker : 0;
	record->arg0 = seen ? thread->tick_arg0 : 0;
	record->sysno = seen ? thread->tick_sysno : -1;
	record->pad2 = 0;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

#endif /* PROFD_BPF_LONG_WAIT_BPF_H_ */
