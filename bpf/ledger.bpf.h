/* The exact account of a thread: three phases, closed at every switch.
 *
 *      switch-out                       switch-in             switch-out
 *  ON_CPU | BLOCKED or RUNQUEUE ............ | ON_CPU ............ |
 *         since         woken                pending_off           settled here
 *
 * Time on the CPU and on the run queue is the kernel's own (sum_exec_runtime, run_delay), which is
 * complete at the switch-out; the wait before it gets the rest, so the three add up to the wall.
 */
#ifndef PROFD_BPF_LEDGER_BPF_H_
#define PROFD_BPF_LEDGER_BPF_H_

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "abi.h"
#include "loss.bpf.h"

/* An index into the arrays by reason, in a form whose bound the verifier can follow. */
static __always_inline u32 reason_index(u32 reason)
{
	barrier_var(reason);
	return reason < PROFD_REASON_COUNT ? reason : PROFD_REASON_OTHER;
}

static __always_inline void ledger_add_off(struct profd_ledger *ledger, u8 reason, u64 ns)
{
	ledger->off[reason_index(reason)] += ns;
}

/* Settles the run that ends now and the wait before it. A switch that the kernel did not report (it
 * happens) leaves the run's start unknown; the books still tell how long it was.
 */
static __always_inline void ledger_settle(struct profd_ledger *ledger, struct task_struct *task,
					  u64 now)
{
	u64 exec_runtime = task->se.sum_exec_runtime;
	u64 run_delay = task->sched_info.run_delay;
	u64 ran = exec_runtime - ledger->exec_runtime;
	u64 queued = run_delay - ledger->run_delay;
	s64 stolen = 0;
	s64 wait;

	if (ledger->phase == PROFD_PHASE_ON_CPU) {
		stolen = (s64)(now - ledger->since - ran);
		wait = (s64)(ledger->pending_off - queued);
	} else {
		lose(PROFD_LOSS_SWITCH_UNSEEN, 1);
		ledger->pending_reason = ledger->reason;
		wait = (s64)(ledger->pending_off + now - ledger->since - ran - queued);
	}
	ledger->exec_runtime = exec_runtime;
	ledger->run_delay = run_delay;
	ledger->on_cpu += ran;
	/* More wall time than the kernel booked: interrupts or the hypervisor had the CPU. Less: it
	 * booked from the wake-up on, so the wait was over before the switch.
	 */
	if (stolen > 0)
		queued += stolen;
	else
		wait += stolen;
	ledger->off[PROFD_REASON_RUNQUEUE] += queued;
	ledger_add_off(ledger, ledger->pending_reason, (u64)wait);
	ledger->pending_off = 0;
	ledger->pending_reason = PROFD_REASON_RUNQUEUE;
}

/* The thread leaves its CPU. `reason` is RUNQUEUE when it stays runnable. */
static __always_inline void ledger_out(struct profd_thread *thread, struct task_struct *task,
				       u8 phase, u8 reason, u64 now)
{
	struct profd_ledger *ledger = &thread->ledger;

	thread->seq++;
	barrier();
	ledger_settle(ledger, task, now);
	ledger->since = now;
	ledger->phase = phase;
	ledger->reason = reason;
	ledger->waits[reason_index(reason)]++;
	barrier();
	thread->seq++;
}

/* The thread gets a CPU. */
static __always_inline void ledger_in(struct profd_thread *thread, u64 now)
{
	struct profd_ledger *ledger = &thread->ledger;

	thread->seq++;
	barrier();
	if (ledger->phase == PROFD_PHASE_ON_CPU) {
		/* Its switch-out was not reported: the wait within is counted without a reason. */
		lose(PROFD_LOSS_SWITCH_UNSEEN, 1);
		ledger->pending_off += now - ledger->since;
		ledger->pending_reason = PROFD_REASON_OTHER;
	} else {
		ledger->pending_off = now - ledger->since;
		ledger->pending_reason = ledger->reason;
	}
	ledger->since = now;
	ledger->last_in = now;
	ledger->phase = PROFD_PHASE_ON_CPU;
	barrier();
	thread->seq++;
}

#endif /* PROFD_BPF_LEDGER_BPF_H_ */
