// SPDX-License-Identifier: GPL-2.0-only
/* Threads that come and go: inheritance of the mark, last accounts, new programs. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "abi.h"
#include "born.bpf.h"
#include "exited.bpf.h"
#include "loss.bpf.h"
#include "news.bpf.h"
#include "ring_news.bpf.h"
#include "target.bpf.h"

/* As births_paid. */
profd_u64 execs_paid;
/* An exec was not told of. Reset by the daemon. */
profd_u32 exec_untold;

/* Execs of known processes that found the ring full, by PID, and how many were put there. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, s32);
	__type(value, struct profd_exec_record);
} late_execs SEC(".maps");
profd_u64 late_execs_kept;

/* Tells the daemon whom else to visit, unless there are too many. Else the next drain does. */
static __always_inline void announce_birth(struct task_struct *task, struct profd_thread *thread)
{
	if (!spend_news(&births_paid))
		return;
	make_known(thread);
	list_born(thread->thread_id, task->pid);
}

/* A thread or child of a target is a target from its first instruction on. */
SEC("tp_btf/task_newtask")
int BPF_PROG(on_newtask, struct task_struct *task, u64 clone_flags)
{
	struct profd_thread *parent = thread_of(bpf_get_current_task_btf());
	struct profd_thread *thread;

	if (!parent || !parent->target_id)
		return 0;
	thread = make_storage(task);
	/* A drain may have met it before: it is listed already. */
	if (thread && open_account(thread, task, parent->target_id, bpf_ktime_get_ns(),
				   PROFD_PHASE_RUNQUEUE, PROFD_REASON_RUNQUEUE, true))
		announce_birth(task, thread);
	return 0;
}

/* Whether the ring has room for records that can be spared. */
static __always_inline bool ring_is_calm(void)
{
	return bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) <
	       bpf_ringbuf_query(&events, BPF_RB_RING_SIZE) / 4;
}

/* Who exits is noted before its name and number are gone. With the per-switch layer its last switch
 * closes its account. Without it the books are final when the thread is freed. The account is told
 * as it stands now, too: the thread may have to wait for a CPU before its last switch, or for
 * others before it is freed, and no drain finds it then.
 */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	struct profd_thread *thread = thread_of(task);
	struct task_struct *leader;
	struct profd_thread *owner;

	if (!thread || !thread->thread_id)
		return 0;
	leader = task->group_leader;
	owner = leader == task ? thread : bpf_task_storage_get(&threads, leader, 0, 0);
	thread->exit_pid = visible_pid(untrusted(task)->group_leader);
	thread->exit_tid = visible_pid(task);
	thread->exit_process = owner && is_known(owner) ? thread->exit_pid : 0;
	bpf_probe_read_kernel(thread->process, sizeof(thread->process),
			      &untrusted(task)->group_leader->comm);
	thread->exit_at = bpf_ktime_get_ns();
	if (is_known(thread) && (!ledger_goes_on(thread) || ring_is_calm()))
		tell_last(PROFD_RECORD_EXITING, task, thread, CLOSING_EXIT);
	return 0;
}

/* Nothing runs as this thread any more: closes what its last switch did not. */
SEC("tp_btf/sched_process_free")
int BPF_PROG(on_free, struct task_struct *task)
{
	struct profd_thread *thread = thread_of(task);

	if (thread && thread->thread_id)
		close_account(task, thread, CLOSING_FREE);
	return 0;
}

static __always_inline void fill_exec(struct profd_exec_record *record, struct task_struct *task,
				      struct profd_thread *thread, int pid)
{
	record->type = PROFD_RECORD_EXEC;
	record->pid = pid;
	record->target_id = thread ? thread->target_id : 0;
	record->pad = 0;
	bpf_probe_read_kernel(record->comm, sizeof(record->comm), &task->comm);
}

/* Keeps an exec of a known process for the daemon where the ring has no room. */
static __always_inline void keep_exec(struct task_struct *task, struct profd_thread *thread,
				      int pid)
{
	struct profd_exec_record record;

	fill_exec(&record, task, thread, pid);
	if (bpf_map_update_elem(&late_execs, &pid, &record, BPF_ANY))
		lose(PROFD_LOSS_RING_FULL_EVENT, 1);
	else
		__sync_fetch_and_add(&late_execs_kept, 1);
}

/* A process became another program: it may match a name now, and its modules are new. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task, s32 old_pid)
{
	struct profd_thread *thread = thread_of(task);
	struct profd_exec_record *record = NULL;
	int pid = visible_pid(untrusted(task)->group_leader);
	/* A thread other than the leader that becomes a program takes the leader's place. */
	bool known = old_pid != task->pid || (thread && is_known(thread));

	if (!pid)
		return 0;
	if (known || spend_news(&execs_paid))
		record = bpf_ringbuf_reserve(&events, sizeof(*record), 0);
	if (record) {
		fill_exec(record, task, thread, pid);
		bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
		tell_ring_news();
	} else if (known) {
		keep_exec(task, thread, pid);
	} else if (!exec_untold) {
		exec_untold = 1;
	}
	return 0;
}
