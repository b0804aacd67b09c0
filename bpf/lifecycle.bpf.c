// SPDX-License-Identifier: GPL-2.0-only
/* Threads that come and go: inheritance of the mark, last accounts, new programs. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "abi.h"
#include "loss.bpf.h"
#include "target.bpf.h"

/* Tells the daemon whom else to visit. Where that fails the next drain does. */
static __always_inline void announce_birth(struct task_struct *task, struct profd_thread *thread)
{
	struct profd_born_record *record = bpf_ringbuf_reserve(&events, sizeof(*record), 0);

	if (!record) {
		lose(PROFD_LOSS_RING_FULL_EVENT, 1);
		return;
	}
	record->type = PROFD_RECORD_BORN;
	record->kernel_tid = task->pid;
	record->thread_id = thread->thread_id;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

/* A thread or child of a target is a target from its first instruction on. */
SEC("tp_btf/task_newtask")
int BPF_PROG(on_newtask, struct task_struct *task, u64 clone_flags)
{
	struct profd_thread *parent = thread_of(bpf_get_current_task_btf());
	struct profd_thread *thread;

	if (!parent || !parent->target_id)
		return 0;
	thread = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread) {
		lose(PROFD_LOSS_THREAD_STORAGE, 1);
		return 0;
	}
	thread->born = 1;
	open_account(thread, task, parent->target_id, bpf_ktime_get_ns(), PROFD_PHASE_RUNQUEUE,
		     PROFD_REASON_RUNQUEUE);
	announce_birth(task, thread);
	return 0;
}

/* The account of a thread that exits, before its name and number are gone. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	struct profd_thread *thread = thread_of(task);
	struct profd_thread_record *record;

	if (!thread || !thread->thread_id)
		return 0;
	record = bpf_ringbuf_reserve(&events, sizeof(*record), 0);
	if (!record) {
		lose(PROFD_LOSS_RING_FULL_EXIT, 1);
		return 0;
	}
	read_account(record, PROFD_RECORD_EXITING, task, thread);
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

/* A process became another program: it may match a name now, and its modules are new. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task)
{
	struct profd_thread *thread = thread_of(task);
	struct profd_exec_record *record;
	int pid = visible_pid(untrusted(task)->group_leader);

	if (!pid)
		return 0;
	record = bpf_ringbuf_reserve(&events, sizeof(*record), 0);
	if (!record) {
		lose(PROFD_LOSS_RING_FULL_EVENT, 1);
		return 0;
	}
	record->type = PROFD_RECORD_EXEC;
	record->pid = pid;
	record->target_id = thread ? thread->target_id : 0;
	record->pad = 0;
	bpf_probe_read_kernel(record->comm, sizeof(record->comm), &task->comm);
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}
