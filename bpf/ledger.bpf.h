/* The ledger of a thread. One entry per cycle, made as the thread leaves its CPU:
 *
 *      left its CPU      woken        arrived            leaves it again
 *          |    wait       |  queued     |     ran + stolen     |
 *        since        (books: run_delay) (last_arrival)         now
 *
 * Time on CPU and on the run queue is the kernel's own (sum_exec_runtime, run_delay), which is
 * complete at the switch-out. The wait gets the rest, so the three add up to the wall time. Nothing
 * happens at the switch-in, and an unreported switch loses no time.
 */
#ifndef PROFD_BPF_LEDGER_BPF_H_
#define PROFD_BPF_LEDGER_BPF_H_

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "abi.h"
#include "durations.bpf.h"
#include "long_wait.bpf.h"
#include "untrusted.bpf.h"

/* Whether the scheduler's clock can be read. Needs CONFIG_FAIR_GROUP_SCHED. */
static __always_inline bool has_scheduler_clock(void)
{
	return bpf_core_field_exists(struct cfs_rq, rq);
}

/* The run queue of the thread's CPU. */
static __always_inline struct rq *run_queue_of(struct task_struct *task)
{
	return untrusted(task)->se.cfs_rq->rq;
}

/* The scheduler's clock as of the current switch of `prev`, without reading a clock. */
static __always_inline u64 scheduler_clock(struct task_struct *prev)
{
	return run_queue_of(prev)->clock;
}

/* When `prev` stopped running, by the scheduler's clock. The time that the scheduler then spent
 * looking for a successor belongs to the wait.
 */
static __always_inline u64 left_at(struct task_struct *prev)
{
	struct rq *rq = run_queue_of(prev);
	u64 since = rq->clock_task - prev->se.exec_start;

	return (s64)since > 0 ? rq->clock - since : rq->clock;
}

/* The total of a reason, with a bound that the verifier can follow. */
static __always_inline struct profd_reason_total *reason_total(struct profd_ledger *ledger,
							       u32 reason)
{
	barrier_var(reason);
	return &ledger->reasons[reason < PROFD_REASON_COUNT ? reason : PROFD_REASON_OTHER];
}

/* Settles the cycle that ends now, by the scheduler's clock. Returns how long the wait took. */
static __always_inline s64 ledger_settle(struct profd_ledger *ledger, struct task_struct *task,
					 u64 now)
{
	u64 exec_runtime = task->se.sum_exec_runtime;
	u64 run_delay = task->sched_info.run_delay;
	u64 ran = exec_runtime - ledger->exec_runtime;
	u64 rest = now - ledger->since - ran - (run_delay - ledger->run_delay);
	s64 stolen;

	ledger->exec_runtime = exec_runtime;
	ledger->run_delay = run_delay;
	/* On the CPU for longer than the kernel charged: interrupts or the hypervisor had it.
	 * Unknown for a ledger that was opened in the middle of a run.
	 */
	stolen = (s64)(now - task->sched_info.last_arrival - ran);
	if (ledger->phase != PROFD_PHASE_ON_CPU && stolen > 0) {
		ledger->reasons[PROFD_REASON_RUNQUEUE].ns += stolen;
		rest -= stolen;
	}
	reason_total(ledger, ledger->reason)->ns += rest;
	return rest;
}

/* The thread leaves its CPU. `reason` is RUNQUEUE if it stays runnable. Returns the wait after
 * which it ran.
 */
static __always_inline struct ended_wait
ledger_out(struct profd_thread *thread, struct task_struct *task, u8 phase, u8 reason, u64 now)
{
	struct profd_ledger *ledger = &thread->ledger;
	struct ended_wait ended = {.since = ledger->since, .reason = ledger->reason};
	u64 queued = task->sched_info.run_delay - ledger->run_delay;
	bool waited = ledger->phase != PROFD_PHASE_ON_CPU;

	thread->seq++;
	barrier();
	ended.ns = ledger_settle(ledger, task, now);
	ledger->since = now;
	ledger->phase = phase;
	ledger->reason = reason;
	reason_total(ledger, reason)->count++;
	if (waited)
		add_queued(thread, queued);
	if (ended.reason != PROFD_REASON_RUNQUEUE)
		add_wait(thread, ended.reason, ended.ns);
	barrier();
	thread->seq++;
	return ended;
}

#endif /* PROFD_BPF_LEDGER_BPF_H_ */
