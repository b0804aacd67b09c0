/* Which threads are ours, and what is known of each. No program compares numeric PIDs. */
#ifndef PROFD_BPF_TARGET_BPF_H_
#define PROFD_BPF_TARGET_BPF_H_

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "abi.h"
#include "loss.bpf.h"
#include "untrusted.bpf.h"

/* The account of every thread of a target. A process is marked through a pidfd (target_id of its
 * leader); threads and children inherit.
 */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct profd_thread);
} threads SEC(".maps") __weak;

/* Records for the daemon: stacks, exits, execs, modules. Read after every tick, never woken for. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 2 * 1024 * 1024);
} events SEC(".maps") __weak;

/* Source of thread ids. */
profd_u64 next_thread_id __weak;

/* The daemon's PID namespace (kernel address) and its level, set when the daemon runs an iterator.
 */
profd_u64 self_ns __weak;
profd_u32 self_level __weak;

/* Epoch of the per-switch layer; 0 while it is off. Ledgers of another epoch stand still. */
profd_u32 switch_epoch __weak;

/* How many drains there were, for the longest waits of each. Set by the daemon. */
profd_u32 duration_drain __weak;

/* Our clock less the scheduler's, ns, as of the last time the daemon's thread left its CPU. */
profd_u64 clock_distance __weak;

/* The account of a thread, or NULL when it has none. */
static __always_inline struct profd_thread *thread_of(struct task_struct *task)
{
	if (!untrusted(task)->bpf_storage)
		return NULL;
	return bpf_task_storage_get(&threads, task, 0, 0);
}

static __always_inline u64 switches_of(struct task_struct *task)
{
	return *(volatile unsigned long *)&task->nvcsw + *(volatile unsigned long *)&task->nivcsw;
}

/* What a pid is called at a level, which it must have. */
static __always_inline bool read_upid(struct pid *pid, u32 level, struct upid *upid)
{
	return !bpf_core_read(upid, bpf_core_type_size(struct upid),
			      (void *)&pid->numbers + level * bpf_core_type_size(struct upid));
}

/* A pid as the daemon sees it; 0 when it is not visible in its namespace. */
static __always_inline int visible_number(struct pid *pid)
{
	struct upid upid = {};
	u32 level = self_level;

	/* numbers[] has level + 1 entries; the level is checked against this pid's own. */
	if (!pid || !self_ns || BPF_CORE_READ(pid, level) < level || !read_upid(pid, level, &upid))
		return 0;
	return (u64)upid.ns == self_ns ? upid.nr : 0;
}

/* PID as the daemon sees it; 0 when the task is not visible in its namespace or already unhashed.
 */
static __always_inline int visible_pid(struct task_struct *task)
{
	return visible_number(BPF_CORE_READ(task, thread_pid));
}

/* Where the ledger is to go on: at `now`, at which the thread is in `phase`. Nobody else writes to
 * a ledger that is not armed.
 */
static __always_inline void set_ledger(struct profd_thread *thread, struct task_struct *task,
				       u64 now, u8 phase, u8 reason)
{
	thread->ledger.since = now - clock_distance;
	thread->ledger.phase = phase;
	thread->ledger.reason = reason;
	thread->ledger.run_delay = task->sched_info.run_delay;
	thread->ledger.exec_runtime = task->se.sum_exec_runtime;
	thread->armed_at = now;
	thread->rest.known = 0;
}

/* From here on the switch program takes the ledger up. */
static __always_inline void arm_ledger(struct profd_thread *thread)
{
	barrier();
	thread->ledger.armed = switch_epoch;
}

/* Storage for the account of a thread; NULL if it cannot have any now. */
static __always_inline struct profd_thread *make_storage(struct task_struct *task)
{
	struct profd_thread *thread =
		bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	/* If two programs make it at once, the kernel refuses one. The other opens the account. */
	if (!thread && !bpf_task_storage_get(&threads, task, 0, 0))
		lose(PROFD_LOSS_THREAD_STORAGE, 1);
	return thread;
}

/* Opens the account of a thread that is in `phase` from `now` on. `born`: it has not run yet. Any
 * other is known, so that it is not folded: the books of those that are begin at 0. False: another
 * program opens it.
 */
static __always_inline bool open_account(struct profd_thread *thread, struct task_struct *task,
					 u32 target_id, u64 now, u8 phase, u8 reason, bool born)
{
	if (__sync_val_compare_and_swap(&thread->begin, 0, now))
		return false;
	if (born)
		thread->born = 1;
	else
		thread->fate = PROFD_FATE_KNOWN;
	set_ledger(thread, task, now, phase, reason);
	/* As the ledger has them: if a drain opens the account, the thread may run meanwhile. */
	thread->begin_clock = thread->ledger.since;
	thread->begin_exec = thread->ledger.exec_runtime;
	thread->begin_delay = thread->ledger.run_delay;
	thread->target_id = target_id;
	thread->thread_id = __sync_fetch_and_add(&next_thread_id, 1) + 1;
	arm_ledger(thread);
	return true;
}

static __always_inline void read_books(struct profd_books *books, struct task_struct *task)
{
	books->exec_runtime = task->se.sum_exec_runtime;
	books->run_delay = task->sched_info.run_delay;
	books->last_arrival = task->sched_info.last_arrival;
	books->last_queued = task->sched_info.last_queued;
	books->nvcsw = task->nvcsw;
	books->nivcsw = task->nivcsw;
	books->min_flt = task->min_flt;
	books->maj_flt = task->maj_flt;
	books->read_bytes = 0;
	books->write_bytes = 0;
	if (bpf_core_field_exists(struct task_struct, ioac)) {
		books->read_bytes = task->ioac.read_bytes;
		books->write_bytes = task->ioac.write_bytes;
	}
}

/* The reading of an account; lives on the stack. */
struct reading {
	struct profd_thread_record *record;
	struct task_struct *task;
	struct profd_thread *thread;
	u64 torn; /* the thread switched meanwhile */
};

/* Reads what changes at a switch. 1 ends it. */
static long read_ledger(u32 attempt, struct reading *reading)
{
	struct profd_thread_record *record = reading->record;
	struct profd_thread *thread = reading->thread;
	struct task_struct *task = reading->task;
	u32 seq = *(volatile u32 *)&thread->seq;

	barrier();
	record->ledger = thread->ledger;
	record->state = task->__state;
	record->on_cpu = task->on_cpu;
	read_books(&record->books, task);
	record->now = bpf_ktime_get_ns();
	record->clock = record->now - clock_distance;
	barrier();
	reading->torn = seq & 1 || seq != *(volatile u32 *)&thread->seq;
	return !reading->torn;
}

/* Has the daemon know the thread by its number, which is to come before anything else is told of
 * it. False: its account is folded, and nothing can be told of it any more.
 */
static __always_inline bool make_known(struct profd_thread *thread)
{
	u32 fate = *(volatile u32 *)&thread->fate;

	if (fate == PROFD_FATE_UNKNOWN)
		fate = __sync_val_compare_and_swap(&thread->fate, PROFD_FATE_UNKNOWN,
						   PROFD_FATE_KNOWN);
	return fate != PROFD_FATE_FOLDED;
}

static __always_inline bool is_known(struct profd_thread *thread)
{
	return *(volatile u32 *)&thread->fate == PROFD_FATE_KNOWN;
}

/* Whether the ledger has gone on since it was armed last. */
static __always_inline bool ledger_goes_on(struct profd_thread *thread)
{
	return thread->ledger.armed && thread->ledger.armed == switch_epoch;
}

/* Who a thread is. */
static __always_inline void identify(struct profd_thread_record *record, struct task_struct *task)
{
	struct task_struct *leader = untrusted(task)->group_leader;

	record->pid = visible_pid(leader);
	record->tid = visible_pid(task);
	record->start = task->start_boottime;
	record->process_start = leader->start_boottime;
	bpf_probe_read_kernel(record->process, sizeof(record->process), &leader->comm);
}

/* Copies the histograms that are in use. Neither static nor inlined: the verifier follows it once.
 */
__noinline int read_durations(struct profd_thread_record *record, struct profd_thread *thread)
{
	u32 seq;

	if (!record || !thread)
		return 0;
	seq = *(volatile u32 *)&thread->seq;
	barrier();
	record->duration_drain = duration_drain;
	record->durations[0] = thread->durations[0];
#pragma unroll
	for (u32 i = 1; i < PROFD_DURATION_PLACES; i++) {
		if (thread->durations[i].reason)
			record->durations[i] = thread->durations[i];
		else
			record->durations[i].reason = 0;
	}
	barrier();
	record->durations_torn = seq & 1 || seq != *(volatile u32 *)&thread->seq;
	return 0;
}

/* Fills a record with the account as it stands, but for who it is. False when the thread switched
 * all the while.
 */
static __always_inline bool read_account(struct profd_thread_record *record, u32 type,
					 struct task_struct *task, struct profd_thread *thread)
{
	struct reading reading = {.record = record, .task = task, .thread = thread, .torn = 1};

	record->type = type;
	record->target_id = thread->target_id;
	record->thread_id = thread->thread_id;
	record->begin = thread->begin;
	record->armed_at = ledger_goes_on(thread) ? thread->armed_at : 0;
	record->begin_clock = thread->begin_clock;
	record->begin_exec = thread->begin_exec;
	record->begin_delay = thread->begin_delay;
	record->born = thread->born;
	record->kernel_tid = task->pid;
	record->at_rest = 0;
	read_durations(record, thread);
	bpf_probe_read_kernel(record->comm, sizeof(record->comm), &task->comm);
	bpf_loop(4, read_ledger, &reading, 0);
	return !reading.torn;
}

#endif /* PROFD_BPF_TARGET_BPF_H_ */
