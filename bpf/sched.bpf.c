// SPDX-License-Identifier: GPL-2.0-only
/* The per-switch layer: exact time by reason. Runs in the path of the target; walks no stack. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "abi.h"
#include "ledger.bpf.h"
#include "loss.bpf.h"
#include "reason.bpf.h"
#include "target.bpf.h"

/* What this program costs the threads it runs in. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct profd_switch_cost);
} switch_cost SEC(".maps");

static __always_inline void emit_dead(struct task_struct *task, struct profd_thread *thread)
{
	struct profd_thread_record *record = bpf_ringbuf_reserve(&events, sizeof(*record), 0);

	if (!record) {
		lose(PROFD_LOSS_RING_FULL_EXIT, 1);
		return;
	}
	read_account(record, PROFD_RECORD_DEAD, task, thread);
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

/* Closes the phase of the thread that goes and opens that of the one that comes. */
SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	struct profd_thread *out = thread_of(prev);
	struct profd_thread *in = thread_of(next);
	struct profd_switch_cost *cost;
	u8 reason = PROFD_REASON_RUNQUEUE;
	u8 phase = PROFD_PHASE_RUNQUEUE;
	u32 zero = 0;
	u64 arg0;
	s32 sysno;
	u64 now;

	if (!out) {
		barrier(); /* keeps the compiler from or-ing two pointers, which the verifier refuses */
		if (!in)
			return 0;
	}
	now = bpf_ktime_get_ns();
	if (out && out->thread_id) {
		if (!preempt && prev_state != TASK_RUNNING) {
			phase = PROFD_PHASE_BLOCKED;
			reason = blocked_reason(prev, (struct pt_regs *)bpf_task_pt_regs(prev),
						prev_state, &sysno, &arg0);
		}
		ledger_out(out, prev, phase, reason, now);
		if (prev_state & TASK_DEAD)
			emit_dead(prev, out);
	}
	if (in && in->thread_id)
		ledger_in(in, now);
	cost = bpf_map_lookup_elem(&switch_cost, &zero);
	if (cost && ++cost->switches % PROFD_COST_SAMPLE == 0) {
		/* The look-ups came before `now`: done again, so that they are in the measure. */
		if (thread_of(prev))
			cost->timed++;
		else if (thread_of(next))
			cost->timed++;
		cost->timed_ns += bpf_ktime_get_ns() - now;
	}
	return 0;
}

char LICENSE[] SEC("license") __weak = "GPL";
