/* The exact account of a thread: three phases, closed at every switch.
 *
 *      switch-out                    switch-in              switch-out
 *  ON_CPU | BLOCKED or RUNQUEUE ......... | ON_CPU .............. |
 *         since                           pending_off             settled here
 *
 * How much of a wait was spent on the run queue is taken from the kernel's sched_info.run_delay,
 * which is complete once the thread runs; so a wait is settled at the switch-out after it.
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

/* The thread leaves its CPU. `reason` is RUNQUEUE when it stays runnable. */
static __always_inline void ledger_out(struct profd_thread *thread, struct task_struct *task,
				       u8 phase, u8 reason, u64 now)
{
	struct profd_ledger *ledger = &thread->ledger;
	u64 run_delay = task->sched_info.run_delay;
	u64 off = ledger->pending_off;
	u64 queued = run_delay - ledger->run_delay;

	thread->seq++;
	barrier();
	if (off) {
		if (queued > off)
			queued = off;
		ledger->off[PROFD_REASON_RUNQUEUE] += queued;
		ledger_add_off(ledger, ledger->pending_reason, off - queued);
		ledger->pending_off = 0;
	}
	ledger->run_delay = run_delay;
	if (ledger->phase == PROFD_PHASE_ON_CPU) {
		ledger->on_cpu += now - ledger->since;
	} else {
		ledger_add_off(ledger, ledger->reason, now - ledger->since);
		lose(PROFD_LOSS_PHASE_MISMATCH, 1);
	}
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
		ledger->on_cpu += now - ledger->since;
		lose(PROFD_LOSS_PHASE_MISMATCH, 1);
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
