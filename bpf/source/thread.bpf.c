// SPDX-License-Identifier: GPL-2.0-only
/* The drain: one pass over the threads. Opens accounts for those that have none, and writes every
 * account that a thread could have changed.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "abi.h"
#include "exited.bpf.h"
#include "loss.bpf.h"
#include "news.bpf.h"
#include "reason.bpf.h"
#include "rest.bpf.h"
#include "target.bpf.h"

/* Mark every process of the daemon's PID namespace as this target; 0 = only marked ones. */
const volatile profd_u32 default_target;

/* Threads at rest that the drain left out. Set to 0 by the daemon before it. */
profd_u32 drain_left_out;

/* Where a record is put together. One drain runs at a time. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct profd_thread_record);
} drain_scratch SEC(".maps");

static __always_inline void learn_self(struct task_struct *self)
{
	struct pid *pid = BPF_CORE_READ(self, thread_pid);
	struct upid upid = {};
	u32 level = BPF_CORE_READ(pid, level);

	bpf_core_read(&upid, bpf_core_type_size(struct upid),
		      (void *)&pid->numbers + level * bpf_core_type_size(struct upid));
	self_level = level;
	self_ns = (u64)upid.ns;
}

/* What an unmarked thread belongs to: its leader's target, or the default. */
static __always_inline u32 inherited_target(struct task_struct *task)
{
	struct task_struct *leader = task->group_leader;
	struct profd_thread *owner;

	if (leader && leader != task) {
		owner = bpf_task_storage_get(&threads, leader, 0, 0);
		if (owner && owner->target_id)
			return owner->target_id;
	}
	return default_target;
}

/* Says what a thread does at present, as far as can be told from outside. */
static __always_inline u8 present_phase(struct task_struct *task, u8 *reason)
{
	u32 state = task->__state;
	s32 sysno;
	u64 arg0;

	*reason = PROFD_REASON_RUNQUEUE;
	if (state == TASK_RUNNING || state & (TASK_WAKING | TASK_NEW))
		return task->on_cpu ? PROFD_PHASE_ON_CPU : PROFD_PHASE_RUNQUEUE;
	*reason = blocked_reason(task, (struct pt_regs *)bpf_task_pt_regs(task), state, &sysno,
				 &arg0);
	return PROFD_PHASE_BLOCKED;
}

/* Whether nothing but the time changes in the account while the thread sleeps. */
static __always_inline bool may_rest(const struct profd_thread_record *record)
{
	return !record->armed_at || (record->ledger.phase == PROFD_PHASE_BLOCKED &&
				     record->ledger.reason != PROFD_REASON_RUNQUEUE);
}

/* The daemon's thread is marked as its clock. */
static __always_inline void mark_clock(struct task_struct *self)
{
	struct profd_thread *thread =
		bpf_task_storage_get(&threads, self, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (thread)
		thread->clock = 1;
}

SEC("iter/task")
int drain(struct bpf_iter__task *ctx)
{
	struct task_struct *self = bpf_get_current_task_btf();
	struct seq_file *seq = ctx->meta->seq;
	struct task_struct *task = ctx->task;
	struct profd_thread_record *record;
	struct profd_thread *thread;
	u32 zero = 0;
	u8 phase, reason;
	u32 target;
	bool known;

	if (!task || task->flags & PF_KTHREAD)
		return 0;
	if (!self_ns)
		learn_self(self);
	if (task == self) {
		mark_clock(self);
		return 0;
	}
	thread = bpf_task_storage_get(&threads, task, 0, 0);
	if (!thread || !thread->thread_id) {
		target = thread ? thread->target_id : inherited_target(task);
		if (!target || untrusted(task)->group_leader == untrusted(self)->group_leader ||
		    task->exit_state)
			return 0;
		thread = make_storage(task);
		if (!thread)
			return 0;
		phase = present_phase(task, &reason);
		if (!open_account(thread, task, target, bpf_ktime_get_ns(), phase, reason, false))
			return 0;
	}
	if (!thread->target_id)
		return 0;
	if (task->exit_state) {
		/* A zombie that no last switch told of. */
		if (task->__state & TASK_DEAD && !task->on_cpu)
			close_account(task, thread, CLOSING_DRAIN);
		return 0;
	}
	/* Too many new ones: those that end soon are folded. */
	known = is_known(thread);
	if (!known && bpf_ktime_get_ns() - thread->begin < PROFD_YOUNG_NS &&
	    !spend_news(&births_paid))
		return 0;
	/* Before it is read. One whose account was folded meanwhile is none of this drain's. */
	if (!make_known(thread))
		return 0;
	/* Its exit had begun before the daemon knew it, and may not have been reported. Its last
	 * account has all of it, but may come late: till then it would seem to have vanished.
	 */
	if (!known && *(volatile u64 *)&thread->exit_at)
		return 0;
	if (thread->ledger.armed != switch_epoch) {
		/* The layer came on, or went: the ledger goes on from here, or stands still. */
		phase = present_phase(task, &reason);
		set_ledger(thread, task, bpf_ktime_get_ns(), phase, reason);
		arm_ledger(thread);
	}
	if (still_rests(&thread->rest, task, thread)) {
		drain_left_out++;
		return 0;
	}
	record = bpf_map_lookup_elem(&drain_scratch, &zero);
	if (!record)
		return 0;
	begin_rest(&thread->rest, task, thread);
	identify(record, task);
	if (!read_account(record, PROFD_RECORD_THREAD, task, thread))
		lose(PROFD_LOSS_TORN_LEDGER, 1);
	else if (may_rest(record) && slept_since(&thread->rest, task, thread))
		record->at_rest = 1;
	/* Where there is no room for it the kernel comes here again. */
	if (!bpf_seq_write(seq, record, sizeof(*record)))
		thread->rest.known = record->at_rest;
	return 0;
}
