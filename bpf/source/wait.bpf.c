// SPDX-License-Identifier: GPL-2.0-only
/* The tick: where every thread that does not run is waiting. Runs on the daemon's CPU time, from
 * outside; a thread found in the wait it was in at the last tick costs no walk.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "abi.h"
#include "long_wait.bpf.h"
#include "loss.bpf.h"
#include "object.bpf.h"
#include "occupant.bpf.h"
#include "rest.bpf.h"
#include "stacks.bpf.h"
#include "target.bpf.h"
#include "thread_walk.bpf.h"
#include "waits.bpf.h"

/* Number of entries of `visits` that are to be visited. */
profd_u32 visit_count;

/* The threads to visit, and what was found there. Filled in by the daemon before a tick. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PROFD_MAX_VISITS);
	__type(key, u32);
	__type(value, struct profd_visit);
} visits SEC(".maps");

#ifndef PROFD_NO_KERNEL_FUNCTIONS
/* Since 6.2; for programs that user space runs since 6.10. */
extern struct task_struct *bpf_task_from_pid(s32 pid) __ksym;
extern void bpf_task_release(struct task_struct *task) __ksym;
#endif

/* The instant this tick was meant for, ns. What began later, the tick may have caused itself. */
profd_u64 tick_instant_ns;

/* When the tick's thread woke up. Its total delay in run queues as of the last tick. Both in ns. */
profd_u64 tick_woken_ns;
profd_u64 tick_queued_ns;

/* One tick runs at a time. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct walk);
} tick_scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct profd_tick_stats);
} tick_stats SEC(".maps");

/* Where the tick that visits everybody puts what it found at a thread. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct profd_visit);
} tick_found SEC(".maps");

/* Bytes in the ring, as of the last tick. */
profd_u64 ring_held;

static long try_walk(u32 attempt, struct sampling *sampling)
{
	if (attempt_walk(attempt, sampling))
		return 1;
	lose(PROFD_LOSS_TORN_WALK, 1);
	return 0;
}

/* Whether the thread has slept since it was walked: all that was found then is true still. */
static __always_inline bool slept_since_walk(struct task_struct *task, struct profd_thread *thread)
{
	if (!thread->tick_valid || thread->tick_switches != switches_of(task))
		return false;
	barrier();
	return sleeps(task->__state, task->on_cpu);
}

/* Notes when the wait began that the thread is in. It is off its CPU: its ledger was written
 * before.
 */
static __always_inline void find_begin(struct profd_thread *thread, struct profd_visit *found)
{
	found->since = 0;
	if (!found->followed || thread->ledger.phase != PROFD_PHASE_BLOCKED)
		return;
	found->since = thread->ledger.since + clock_distance;
	if (began_unseen(thread, found->since))
		found->followed |= PROFD_FOLLOWED_LATE;
}

/* Computes when the tick's thread woke up: before it got its CPU, by the delay in the run queue. */
static __always_inline void begin_tick(void)
{
	struct task_struct *self = bpf_get_current_task_btf();
	u64 queued = self->sched_info.run_delay - tick_queued_ns;
	u64 woken = self->sched_info.last_arrival + clock_distance - queued;

	tick_woken_ns = (s64)(woken - tick_instant_ns) > 0 ? woken : tick_instant_ns;
}

static __always_inline void end_tick(void)
{
	tick_queued_ns = bpf_get_current_task_btf()->sched_info.run_delay;
}

/* Whether the thread was running on this CPU when the tick's thread woke up, and then blocked. The
 * kernel lets a thread finish its system call before another one gets the CPU. Such ticks would
 * see the begin of waits too often.
 */
static __always_inline bool gave_way(struct task_struct *task, struct profd_thread *thread)
{
	struct task_struct *self = bpf_get_current_task_btf();

	return has_scheduler_clock() && thread->ledger.phase == PROFD_PHASE_BLOCKED &&
	       run_queue_of(task) == run_queue_of(self) &&
	       (s64)(thread->ledger.since + clock_distance - tick_woken_ns) >= 0 &&
	       (s64)(task->sched_info.last_arrival + clock_distance - tick_woken_ns) <= 0;
}

/* Replaces the argument of the system call by what it means, if that is known, and if the thread is
 * still in the wait.
 */
static __always_inline void name_object(struct sampling *sampling)
{
	struct profd_visit *found = sampling->found;
	u64 object = 0;

	if (found->reason != PROFD_REASON_RUNQUEUE && found->reason != PROFD_REASON_LOCK)
		object = note_object(sampling->task, found->sysno);
	barrier();
	if (object && switches_of(sampling->task) == sampling->switches)
		found->arg0 = object;
}

/* Takes a thread's sample, if it waits, into `found`. */
static __always_inline u32 visit(struct task_struct *task, struct profd_thread *thread,
				 struct profd_visit *found)
{
	struct sampling sampling = {};
	struct profd_tick_stats *stats;
	struct walk *walk;
	u64 occupant = 0;
	u32 zero = 0;

	walk = bpf_map_lookup_elem(&tick_scratch, &zero);
	stats = bpf_map_lookup_elem(&tick_stats, &zero);
	if (!walk || !stats)
		return PROFD_VISIT_NONE;
	stats->tasks++;
	note_quiet(thread);
	found->followed = ledger_goes_on(thread) ? PROFD_FOLLOWED : 0;
	if (found->known && slept_since_walk(task, thread)) {
		stats->off_cpu++;
		stats->repeats++;
		note_wait(thread, thread->wait_reason, tick_weight_ns * found->stride);
		/* On its way into the wait it may find that it need not. */
		if (task->on_rq)
			found->quiet = 0;
		if (found->quiet)
			begin_quiet(thread);
		return PROFD_VISIT_STILL;
	}
	sampling.task = task;
	sampling.thread = thread;
	sampling.walk = walk;
	sampling.stats = stats;
	sampling.found = found;
	if (!look_at(&sampling))
		return PROFD_VISIT_RUNNING;
	/* Preempted by the daemon as it woke for this tick: at the instant it was running. */
	if (is_queued_since(thread, tick_instant_ns) || gave_way(task, thread))
		return PROFD_VISIT_RUNNING;
	stats->off_cpu++;
	find_begin(thread, found);
	/* Before the walk: who has the CPU may change soon. */
	if (found->reason == PROFD_REASON_RUNQUEUE)
		occupant = note_occupant(task, tick_instant_ns);
	if (thread->tick_valid && thread->tick_switches == sampling.switches) {
		stats->repeats++;
		found->stack = thread->tick_stack;
		if (found->reason == PROFD_REASON_RUNQUEUE)
			found->arg0 = occupant;
		else if (thread->tick_arg0 & PROFD_OBJECT_BIT)
			found->arg0 = thread->tick_arg0;
		note_wait(thread, found->reason, tick_weight_ns * found->stride);
		return PROFD_VISIT_SAME;
	}
	thread->tick_valid = 0;
	forget_wait(thread);
	thread->wait_ticks = 0;
	thread->wait_waker = 0;
	bpf_loop(2, try_walk, &sampling, 0);
	if (walk->torn)
		empty_stack(&walk->record, PROFD_WALK_TORN);
	else if (walk->record.walk != PROFD_WALK_RULES_PENDING &&
		 walk->record.walk != PROFD_WALK_MAP_BUSY)
		thread->tick_valid = 1; /* else the next try may succeed: not remembered */
	if (!intern_stack(&walk->record)) {
		thread->tick_valid = 0;
		empty_stack(&walk->record, PROFD_WALK_LOST);
	}
	if (!walk->torn)
		name_object(&sampling);
	thread->tick_switches = sampling.switches;
	thread->tick_stack = walk->record.hash;
	thread->tick_arg0 = found->arg0;
	thread->tick_sysno = found->sysno;
	if (found->reason == PROFD_REASON_RUNQUEUE)
		found->arg0 = occupant;
	note_wait(thread, found->reason, tick_weight_ns * found->stride);
	found->stack = walk->record.hash;
	return PROFD_VISIT_NEW;
}

/* The tick where threads cannot be looked up: every task of the machine is passed over. Writes each
 * sample; where there is no room for it the kernel comes here again.
 */
SEC("iter.s/task")
int tick(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct profd_thread *thread;
	struct profd_visit *found;
	u32 zero = 0;

	if (!ctx->meta->seq_num)
		begin_tick();
	if (!task) {
		end_tick();
		return 0;
	}
	thread = thread_of(task);
	if (!thread || !thread->thread_id || !is_known(thread))
		return 0;
	found = bpf_map_lookup_elem(&tick_found, &zero);
	if (!found)
		return 0;
	found->thread_id = thread->thread_id;
	found->kernel_tid = task->pid;
	found->known = 0;
	found->quiet = 0;
	found->stride = 1;
	found->outcome = visit(task, thread, found);
	if (found->outcome == PROFD_VISIT_SAME || found->outcome == PROFD_VISIT_NEW)
		bpf_seq_write(ctx->meta->seq, found, sizeof(*found));
	return 0;
}

/* Visits a thread of the list. Neither static nor inlined: the verifier follows it once, not in
 * each state of the loop.
 */
__noinline int visit_entry(u32 index)
{
#ifndef PROFD_NO_KERNEL_FUNCTIONS
	struct profd_visit *entry = bpf_map_lookup_elem(&visits, &index);
	struct profd_thread *thread;
	struct task_struct *task;

	if (!entry)
		return 0;
	entry->outcome = PROFD_VISIT_GONE;
	task = bpf_task_from_pid(entry->kernel_tid);
	if (!task)
		return 0;
	/* The number may be another thread's by now. */
	thread = thread_of(task);
	if (thread && thread->thread_id == entry->thread_id && !task->exit_state) {
		thread->slot = entry->slot;
		entry->outcome = visit(task, thread, entry);
	}
	bpf_task_release(task);
#endif
	return 0;
}

static long visit_listed(u32 index, void *unused)
{
	visit_entry(index);
	return 0;
}

/* The tick: visits the threads that the daemon lists. */
SEC("?syscall")
int tick_list(void *ctx)
{
	u32 count = visit_count;

	if (count > PROFD_MAX_VISITS)
		count = PROFD_MAX_VISITS;
	begin_tick();
	bpf_loop(count, visit_listed, NULL, 0);
	end_tick();
	ring_held = bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA);
	return 0;
}
