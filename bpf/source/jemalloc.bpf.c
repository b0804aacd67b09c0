// SPDX-License-Identifier: GPL-2.0-only
/* Memory that is allocated and freed, by stack: at the events in which an allocator pauses anyway,
 * in the thread's own context. Between two events it costs nothing.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "abi.h"
#include "probe_cost.bpf.h"
#include "heap_count.bpf.h"
#include "jemalloc_data.bpf.h"
#include "loss.bpf.h"
#include "rest.bpf.h"
#include "target.bpf.h"

/* Walks from the place of the probe and counts the stack, in whole intervals: by how much the
 * allocation passed the mark says nothing of others like it (docs/sampling.md). The event stands
 * for `one_in` like it. False without memory for the walk.
 */
static __always_inline bool count_event(struct pt_regs *regs, struct profd_thread *thread,
					const struct heap_event *event, bool at_entry, u64 one_in)
{
	struct profd_sample_key key = {.sysno = -1};
	u64 intervals = (event->total - event->before) / PROFD_HEAP_INTERVAL;
	enum heap_count outcome;
	u64 weight;

	if (intervals > 1)
		key.arg0 = PROFD_HEAP_LARGE_ARGUMENT;
	else
		intervals = 1;
	weight = intervals * PROFD_HEAP_INTERVAL * one_in;

	key.thread_id = thread->thread_id;
	key.kind = event->kind;
	outcome = count_heap(regs, &key, at_entry, weight);
	if (outcome == HEAP_BUSY)
		lose(PROFD_LOSS_HEAP_BUSY, 1);
	if (outcome == HEAP_FULL) {
		lose(PROFD_LOSS_HEAP_FULL, 1);
		lose(PROFD_LOSS_HEAP_FULL_BYTES, weight);
	}
	return outcome != HEAP_BUSY;
}

static __always_inline bool read_event(struct pt_regs *regs, u64 cookie, struct profd_heap *heap,
				       struct heap_event *event)
{
	u32 place = PROFD_PROBE_PLACE(cookie);

	event->watch_id = PROFD_PROBE_WATCH(cookie);
	event->late =
		place == PROFD_HEAP_JEMALLOC_SLOW_ALLOC || place == PROFD_HEAP_JEMALLOC_SLOW_FREE;
	if (event->late)
		return read_late_event(regs, cookie, heap, event);
	if (place == PROFD_HEAP_JEMALLOC_EVENT)
		return read_jemalloc_event(regs, event);
	return read_inlined_event(regs, cookie, event);
}

static __always_inline void tally(u64 cookie, bool held)
{
	u32 key = PROFD_HEAP_TALLY_KEY(PROFD_PROBE_WATCH(cookie), PROFD_HEAP_NUMBER(cookie));
	struct profd_heap_tally *found = bpf_map_lookup_elem(&heap_tallies, &key);

	if (!found) {
		struct profd_heap_tally first = {};

		/* Somebody else may be faster. */
		bpf_map_update_elem(&heap_tallies, &key, &first, BPF_NOEXIST);
		found = bpf_map_lookup_elem(&heap_tallies, &key);
	}
	if (found)
		__sync_fetch_and_add(held ? &found->held : &found->refused, 1);
	if (!held)
		__sync_fetch_and_add(&heap_refusals, 1);
}

/* Reads what came by at the place of a probe, which is an event only if the thread's data say so.
 * Not inlined: stack is scarce in a walk.
 */
static __noinline bool verify_event(struct pt_regs *regs, u64 cookie, struct profd_heap *heap,
				    struct heap_event *event)
{
	bool held = read_event(regs, cookie, heap, event);

	/* Signed: a count goes up. */
	held = held && (s64)(event->total - event->before) >= 0;
	/* Most who take the slow path have nothing to tell. */
	if (!event->late)
		tally(cookie, held);
	return held;
}

#define CLOSED (-1)

/* In which round the thread's process is; 0: not known. CLOSED when nothing counts: with some of
 * the probes only, stacks through the others would have less than their share. Not inlined, as
 * above.
 */
static __noinline int find_round(struct task_struct *task, u64 cookie)
{
	struct profd_heap_round_key key = {
		.pid = visible_pid(untrusted(task)->group_leader),
		.watch_id = PROFD_PROBE_WATCH(cookie),
	};
	u32 *found = bpf_map_lookup_elem(&heap_rounds, &key);

	if (!found)
		return 0;
	return *found ? (int)*found : CLOSED;
}

/* Enters the event, and takes its stack unless it is one of those left out. True when it was. */
static __always_inline bool handle_event(struct pt_regs *regs, struct task_struct *task,
					 struct profd_thread *thread, u64 cookie)
{
	u32 mask = heap_skip_mask;
	struct profd_heap_counter *counter;
	struct heap_thread *heap_thread;
	bool at_entry;
	struct heap_event event;
	int round;

	round = find_round(task, cookie);
	if (round == CLOSED) {
		add_closed_run();
		return false;
	}
	event.round = round;
	heap_thread = bpf_task_storage_get(&heaps, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!heap_thread) {
		lose(PROFD_LOSS_HEAP_STORAGE, 1);
		return false;
	}
	if (!verify_event(regs, cookie, &heap_thread->heap, &event))
		return false;
	counter = counter_of(&heap_thread->heap, event.address);
	if (!counter) {
		/* A thread has more of them than fit. */
		lose(PROFD_LOSS_HEAP_STORAGE, 1);
		return false;
	}
	if (!enter_event(task, counter, &event))
		return false;
	/* Now and then again: it may have been forgotten. */
	if (counter->events % 64 == 1)
		note_place(task, &event);
	if (event.total == event.before || (mask && bpf_get_prandom_u32() & mask))
		return false;
	at_entry = event.late || PROFD_PROBE_PLACE(cookie) == PROFD_HEAP_JEMALLOC_EVENT;
	return count_event(regs, thread, &event, at_entry, mask + 1ULL);
}

/* At the places of enum profd_heap_place. */
SEC("uprobe")
int on_heap_event(struct pt_regs *regs)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct profd_thread *thread = thread_of(task);
	u64 began, cookie;
	bool walked;

	if (!thread || !thread->thread_id || !make_known(thread))
		return 0;
	began = bpf_ktime_get_ns();
	cookie = bpf_get_attach_cookie(regs);
	walked = handle_event(regs, task, thread, cookie);
	add_heap_cost(began, PROFD_PROBE_STEPPED(cookie), walked);
	return 0;
}

static __always_inline void begin_record(struct profd_heap_record *record, struct task_struct *task,
					 struct profd_thread *thread, struct profd_heap *heap)
{
	record->type = PROFD_RECORD_HEAP;
	record->thread_id = thread->thread_id;
	record->none_ended = !untrusted(task)->signal->sum_sched_runtime;
	record->pid = visible_pid(untrusted(task)->group_leader);
	record->late = 0;
	if (heap)
		record->heap = *heap;
	else
		__builtin_memset(&record->heap, 0, sizeof(record->heap));
}

/* What the allocator's counter says as its thread exits. The memory may be another's by now: what
 * lies further from the last event than events do is it only if the marks beside it agree, as where
 * no probe stood.
 */
static long read_own(u32 number, struct profd_heap **heap)
{
	struct profd_heap_counter *counter;
	struct jemalloc_marks marks;
	u64 total;

	barrier_var(number); /* the mask comes last, where the verifier sees it */
	counter = &(*heap)->counters[number & (PROFD_HEAP_COUNTERS - 1)];
	if (!counter->address ||
	    bpf_probe_read_user(&total, sizeof(total), (void *)counter->current))
		return 0;
	if (total - counter->total < MAX_TAIL ||
	    ((s64)(total - counter->total) > 0 &&
	     !bpf_probe_read_user(&marks, sizeof(marks), (void *)counter->address) &&
	     are_marks(marks.last_event, marks.next_event) &&
	     total - marks.last_event < MAX_EVENT_INTERVAL))
		counter->total = total;
	return 0;
}

/* The reading of a thread's counters; lives on the stack. */
struct heap_reading {
	struct task_struct *task;
	struct profd_heap *heap;
	u8 incomplete; /* one of them could not be read */
	u8 busy; /* that may be different in a moment */
};

static long read_outside(u32 number, struct heap_reading *reading)
{
	struct memory_mapping mapping = {};
	struct profd_heap_counter *counter;
	u64 total;

	barrier_var(number); /* the mask comes last, where the verifier sees it */
	counter = &reading->heap->counters[number & (PROFD_HEAP_COUNTERS - 1)];
	if (!counter->address)
		return 0;
	if (!is_readable(reading->task, counter->current, &reading->busy, &mapping) ||
	    bpf_copy_from_user_task(&total, sizeof(total), (void *)counter->current, reading->task,
				    0))
		reading->incomplete = 1;
	else
		counter->total = total;
	return 0;
}

/* What a thread that sleeps has allocated and freed without an event that was seen. False when that
 * is not known; sets `busy` if it may be known in a moment. Not inlined: the verifier would follow
 * what comes after it for each way through it.
 */
static __noinline bool look_at_thread_data(struct task_struct *task, struct profd_thread *thread,
					   struct heap_thread *heap_thread,
					   const struct thread_data_place *place, u8 *busy)
{
	u64 address = task->thread.fsbase + place->offset;
	struct memory_mapping mapping = {};
	struct thread_data data;

	if (place->mixed)
		return false;
	if (has_both(&heap_thread->heap))
		return true;
	if (!is_readable(task, address, busy, &mapping) ||
	    bpf_copy_from_user_task(&data, sizeof(data), (void *)address, task, 0))
		return false;
	/* One that runs may be about to enter them itself. */
	return slept_since(&heap_thread->rest, task, thread) &&
	       enter_thread_data(task, &heap_thread->heap, &data, address, place);
}

/* The totals of every thread whose process has any, and that has run since they were written. */
SEC("iter.s/task")
int drain_heap(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct thread_data_place place = {};
	struct profd_heap_record *record;
	struct heap_thread *heap_thread;
	struct profd_thread *thread;
	struct heap_reading reading = {.task = task};
	bool known, read;
	u32 zero = 0;

	if (!task || task->exit_state)
		return 0;
	thread = thread_of(task);
	if (!thread || !thread->thread_id)
		return 0;
	known = place_of(task, &place);
	heap_thread =
		bpf_task_storage_get(&heaps, task, 0, known ? BPF_LOCAL_STORAGE_GET_F_CREATE : 0);
	record = bpf_map_lookup_elem(&heap_record_scratch, &zero);
	if (!heap_thread || !record || still_rests(&heap_thread->rest, task, thread))
		return 0;
	begin_rest(&heap_thread->rest, task, thread);
	read = known && look_at_thread_data(task, thread, heap_thread, &place, &reading.busy);
	begin_record(record, task, thread, &heap_thread->heap);
	record->exiting = 0;
	record->unread = !read;
	reading.heap = &record->heap;
	bpf_loop(PROFD_HEAP_COUNTERS, read_outside, &reading, 0);
	record->late = reading.busy;
	/* Where there is no room for it the kernel comes here again. */
	if (!bpf_seq_write(ctx->meta->seq, record, sizeof(*record)))
		heap_thread->rest.known =
			!reading.incomplete && slept_since(&heap_thread->rest, task, thread);
	return 0;
}

/* The last totals of a thread. Where its memory is gone by now, those of its last event. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_heap_exit, struct task_struct *task)
{
	struct profd_thread *thread = thread_of(task);
	struct thread_data_place place = {};
	struct profd_heap_record *record;
	struct heap_thread *heap_thread;
	struct thread_data data;
	struct profd_heap *heap;
	bool known;
	u64 address;

	if (!thread || !thread->thread_id)
		return 0;
	known = place_of(task, &place);
	heap_thread = bpf_task_storage_get(&heaps, task, 0, 0);
	if ((!heap_thread && !known) || !make_known(thread))
		return 0;
	record = bpf_ringbuf_reserve(&events, sizeof(*record), 0);
	if (!record) {
		lose(PROFD_LOSS_RING_FULL_EXIT, 1);
		return 0;
	}
	begin_record(record, task, thread, heap_thread ? &heap_thread->heap : NULL);
	record->exiting = 1;
	record->unread = place.mixed || !has_both(&record->heap);
	/* Before Linux 6.15 it has no memory of its own any more. */
	if (known && record->unread && !place.mixed && untrusted(task)->mm) {
		address = task->thread.fsbase + place.offset;
		if (!bpf_probe_read_user(&data, sizeof(data), (void *)address) &&
		    enter_thread_data(task, &record->heap, &data, address, &place))
			record->unread = 0;
	}
	heap = &record->heap;
	bpf_loop(PROFD_HEAP_COUNTERS, read_own, &heap, 0);
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

/* The thread runs another program: its counters are gone, and what they said last is told. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_heap_exec, struct task_struct *task)
{
	struct heap_thread *heap_thread = bpf_task_storage_get(&heaps, task, 0, 0);
	struct profd_thread *thread = thread_of(task);
	struct profd_heap_record *record;

	if (!heap_thread || !thread || !thread->thread_id)
		return 0;
	record = bpf_ringbuf_reserve(&events, sizeof(*record), 0);
	if (record) {
		begin_record(record, task, thread, &heap_thread->heap);
		record->exiting = 0;
		record->unread = 0;
		bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	} else {
		lose(PROFD_LOSS_RING_FULL_EXIT, 1);
	}
	__builtin_memset(heap_thread, 0, sizeof(*heap_thread));
	return 0;
}
