// SPDX-License-Identifier: GPL-2.0-only
/* The look: what every thread of the targets does now, for somebody who asks. It runs beside the
 * tick, shares nothing with it but hints, and leaves nothing behind that weighs or is counted in a
 * profile.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "abi.h"
#include "ledger.bpf.h"
#include "object.bpf.h"
#include "occupant.bpf.h"
#include "reason.bpf.h"
#include "target.bpf.h"
#include "thread_walk.bpf.h"
#include "unwind.bpf.h"

/* One look runs at a time. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct walk);
} look_scratch SEC(".maps");

/* What a look writes of a thread before its stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct profd_look);
} look_found SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct profd_tick_stats);
} look_stats SEC(".maps");

/* When the look began, ns: what was preempted after that, the look may have preempted itself. */
profd_u64 look_instant_ns;

/* When the task left its CPU for the last time, by the scheduler's clock, as the kernel knows it:
 * it charged the task up to then. Too late by what interrupts and the hypervisor took of that CPU
 * since. 0: not known.
 */
static __always_inline u64 kernel_left_at(struct task_struct *task)
{
	struct rq *rq;
	u64 start = task->se.exec_start;

	if (!start || !has_scheduler_clock())
		return 0;
	rq = BPF_CORE_READ(task, se.cfs_rq, rq);
	if (!rq)
		return 0;
	return start + BPF_CORE_READ(rq, clock) - BPF_CORE_READ(rq, clock_task);
}

/* When what the task does now began, by the scheduler's clock; 0: not known. A wait begins as the
 * task leaves its CPU. The ledger knows that if it has seen it; of an older wait it only knows
 * since when it is kept, which is later.
 */
static __always_inline u64 began_at(struct task_struct *task, struct profd_thread *thread,
				    const struct profd_visit *found)
{
	bool kept = ledger_goes_on(thread);
	/* Read here: clang would merge the loads below into one of either pointer, which the
	 * verifier refuses.
	 */
	u64 since = *(volatile u64 *)&thread->ledger.since;
	u64 left;

	if (found->outcome == PROFD_VISIT_RUNNING)
		return task->sched_info.last_arrival;
	if (found->reason == PROFD_REASON_RUNQUEUE) {
		/* Moved to another CPU's queue it begins anew there. */
		if (kept && thread->ledger.phase == PROFD_PHASE_RUNQUEUE)
			return since;
		return task->sched_info.last_queued;
	}
	left = kernel_left_at(task);
	if (kept && (!left || (s64)(since - left) < 0))
		return since;
	return left;
}

static long try_look(u32 attempt, struct sampling *sampling)
{
	return attempt_walk(attempt, sampling);
}

/* What a look finds of a thread: like a visit, but it always walks and leaves nothing behind that
 * weighs, is counted or is remembered.
 */
static __always_inline void examine(struct sampling *sampling, struct profd_look *found)
{
	struct profd_stack_record *record = &sampling->walk->record;
	struct profd_thread *thread = sampling->thread;
	bool running = !look_at(sampling);

	/* Preempted by the look as it began. */
	if (!running && found->visit.reason == PROFD_REASON_RUNQUEUE && ledger_goes_on(thread) &&
	    is_queued_since(thread, look_instant_ns))
		running = true;
	if (running) {
		found->visit.outcome = PROFD_VISIT_RUNNING;
		empty_stack(record, PROFD_WALK_NO_USER);
		return;
	}
	found->visit.outcome = PROFD_VISIT_NEW;
	bpf_loop(2, try_look, sampling, 0);
	if (sampling->walk->torn)
		empty_stack(record, PROFD_WALK_TORN);
}

/* What a thread waits for; NULL: not known, or it does not wait. */
static __always_inline struct profd_stack_record *look_for_object(struct sampling *sampling)
{
	struct profd_visit *found = sampling->found;

	if (found->outcome == PROFD_VISIT_RUNNING)
		return NULL;
	if (found->reason == PROFD_REASON_RUNQUEUE)
		return find_occupant(sampling->task, OBJECT_OF_LOOK, look_instant_ns);
	if (found->reason == PROFD_REASON_LOCK || sampling->walk->record.walk == PROFD_WALK_TORN)
		return NULL;
	return find_object(sampling->task, OBJECT_OF_LOOK, found->sysno);
}

/* Visits every thread of the targets. */
SEC("?iter.s/task")
int look(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct sampling sampling = {};
	struct profd_stack_record *object;
	struct profd_look *found;
	u32 zero = 0;
	u32 frames, sysno, words;
	u64 began;

	if (!task)
		return 0;
	sampling.thread = thread_of(task);
	if (!sampling.thread || !sampling.thread->thread_id || task->exit_state)
		return 0;
	found = bpf_map_lookup_elem(&look_found, &zero);
	sampling.walk = bpf_map_lookup_elem(&look_scratch, &zero);
	sampling.stats = bpf_map_lookup_elem(&look_stats, &zero);
	if (!found || !sampling.walk || !sampling.stats)
		return 0;
	sampling.task = task;
	sampling.found = &found->visit;
	found->visit.thread_id = sampling.thread->thread_id;
	found->visit.kernel_tid = task->pid;
	found->visit.sysno = -1;
	found->visit.arg0 = 0;
	found->object = 0;
	examine(&sampling, found);
	found->now = bpf_ktime_get_ns();
	began = began_at(task, sampling.thread, &found->visit);
	found->since = began ? began + clock_distance : 0;
	/* It ran during every walk: what began then is not what it does now. */
	if (sampling.walk->record.walk == PROFD_WALK_TORN)
		found->since = 0;
	sysno = found->visit.sysno;
	barrier_var(sysno);
	found->names_object =
		sysno < SYSCALL_CLASSES && syscall_class[sysno] & NAMES_OBJECT ? 1 : 0;
	object = look_for_object(&sampling);
	if (object)
		found->object = object->hash;
	found->target_id = sampling.thread->target_id;
	found->pid = visible_pid(untrusted(task)->group_leader);
	found->tid = visible_pid(task);
	found->start = task->start_boottime;
	found->process_start = BPF_CORE_READ(task, group_leader, start_boottime);
	bpf_probe_read_kernel(found->comm, sizeof(found->comm), &task->comm);
	bpf_probe_read_kernel(found->process, sizeof(found->process),
			      &untrusted(task)->group_leader->comm);
	frames = sampling.walk->record.kernel_frames + sampling.walk->record.user_frames;
	barrier_var(frames);
	if (frames > PROFD_MAX_FRAMES)
		frames = PROFD_MAX_FRAMES;
	/* Where there is no room for all the kernel comes here again. */
	bpf_seq_write(ctx->meta->seq, found, sizeof(*found));
	bpf_seq_write(ctx->meta->seq, &sampling.walk->record, PROFD_STACK_HEADER_SIZE + frames * 8);
	if (!object)
		return 0;
	words = object->kernel_frames;
	barrier_var(words);
	if (words > PROFD_MAX_FRAMES)
		words = PROFD_MAX_FRAMES;
	bpf_seq_write(ctx->meta->seq, object, PROFD_STACK_HEADER_SIZE + words * 8);
	return 0;
}
