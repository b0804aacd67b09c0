// SPDX-License-Identifier: GPL-2.0-only
/* Memory that is allocated and freed, by stack: at the events in which an allocator pauses anyway,
 * in the thread's own context. Between two events it costs nothing.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "abi.h"
#include "heap_cost.bpf.h"
#include "heap_count.bpf.h"
#include "loss.bpf.h"
#include "own_walk.bpf.h"
#include "rest.bpf.h"
#include "target.bpf.h"

/* What is known of a thread that had an event. Made at the first one. */
struct heap_thread {
	struct profd_heap heap;
	u64 words[PROFD_PT_REGS_WORDS]; /* registers at a probe; too many for the stack */
	struct profd_rest rest;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct heap_thread);
} heaps SEC(".maps");

/* Since when all probes of a process's allocator stand: a number that no other time has. 0: some
 * are about to come, or to go. Without an entry that is not known.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PROFD_MAX_HEAP_ROUNDS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct profd_heap_round_key);
	__type(value, u32);
} heap_rounds SEC(".maps");

/* Events of which no stack is taken, at random: all but one in mask + 1, which weighs as much more.
 */
profd_u32 heap_skip_mask;

/* Where the allocator of a process keeps a thread's data. */
struct thread_data_place {
	u64 started; /* when the process was: another one may get its memory's address */
	u64 since; /* when this became known */
	u64 offset; /* from the thread's fsbase: the same for all threads of the process */
	u16 module_id;
	u16 mixed; /* there are two such places: another allocator, or storage that is not static */
	u16 current[2]; /* in there: the counts of what was allocated, and freed; 0: not known */
};

/* By memory (struct mm_struct), as the first event of a thread told it. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192); /* processes, and what CPUs keep in reserve */
	__type(key, u64);
	__type(value, struct thread_data_place);
} thread_data_places SEC(".maps");

/* By PROFD_HEAP_TALLY_KEY. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PROFD_MAX_HEAP_TALLIES);
	__type(key, u32);
	__type(value, struct profd_heap_tally);
} heap_tallies SEC(".maps");

/* Of all places. */
profd_u64 heap_refusals;

/* Where the records of a drain are put together. One drain runs at a time. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct profd_heap_record);
} heap_record_scratch SEC(".maps");

/* Bytes that a thread allocates after its last event, at most. */
#define MAX_TAIL (1 << 20)
/* From one event of jemalloc to when the next one is due, at most (TE_MAX_INTERVAL). */
#define MAX_EVENT_INTERVAL (4 << 20)

/* From one of a thread's counts to another one of it, at most: they lie in its data (tsd_t). */
#define MAX_THREAD_DATA 8192

/* What jemalloc hands to te_event_trigger (5.3: te_ctx_t). */
struct jemalloc_event {
	u8 is_alloc;
	u8 pad[7];
	u64 current; /* address of the thread's total */
	u64 last_event; /* address of what it was at the event before */
};

/* An event, whatever allocator it is of. */
struct heap_event {
	u64 address; /* of the total as of the last event */
	u64 current; /* of the total itself; 0: not known */
	u64 before; /* the total at the event before this one */
	u64 total;
	u64 thread_data; /* where that begins */
	u32 kind; /* enum profd_kind */
	u32 module_id;
	u32 round; /* 0: it is not known since when all probes stand */
	bool late; /* told by a slow path, after it */
};

/* A register by its place in pt_regs. */
static __always_inline u64 register_at(struct heap_thread *heap_thread, u32 index)
{
	barrier_var(index);
	return index < PROFD_PT_REGS_WORDS ? heap_thread->words[index] : 0;
}

/* The total as of the last event, and when the next one is due, lie side by side in a thread's
 * data. */
struct jemalloc_marks {
	u64 last_event;
	u64 next_event;
};

/* What a thread's data begin with (5.3: tsd.h, TSD_DATA_SLOW). */
struct thread_data {
	u8 has_cache; /* yes or no */
	u8 depth; /* in the allocator */
	u8 pad[6];
	struct jemalloc_marks marks[2]; /* of what was allocated, and freed */
};

static __always_inline bool are_marks(u64 last_event, u64 next_event)
{
	return next_event - last_event - 1 < MAX_EVENT_INTERVAL;
}

/* Whether what begins there can be a thread's data: whether it has a cache (yes or no), and how
 * deep it is in the allocator.
 */
static __always_inline bool is_thread_data(u64 thread_data)
{
	u8 state[2];

	return !bpf_probe_read_user(state, sizeof(state), (void *)thread_data) && state[0] <= 1 &&
	       state[1] <= 1;
}

static __always_inline bool read_inlined_event(struct pt_regs *regs, u64 cookie,
					       struct heap_thread *heap_thread,
					       struct heap_event *event)
{
	u32 growth = PROFD_HEAP_GROWTH_REGISTER(cookie);
	struct jemalloc_marks marks;
	u64 thread_data;

	if (bpf_probe_read_kernel(heap_thread->words, sizeof(heap_thread->words), regs))
		return false;
	thread_data = register_at(heap_thread, PROFD_HEAP_THREAD_REGISTER(cookie));
	event->total = register_at(heap_thread, PROFD_HEAP_VALUE_REGISTER(cookie));
	event->address = thread_data + PROFD_HEAP_FIELD(cookie);
	event->current = 0;
	event->kind = PROFD_PROBE_PLACE(cookie) == PROFD_HEAP_JEMALLOC_INLINED_ALLOC
			      ? PROFD_KIND_ALLOC
			      : PROFD_KIND_FREE;
	if (bpf_probe_read_user(&marks, sizeof(marks), (void *)event->address) ||
	    !is_thread_data(thread_data))
		return false;
	event->thread_data = thread_data;
	event->before = marks.last_event;
	if (growth != PROFD_NO_REGISTER) {
		/* Whoever comes here another way has not stored the count just now. */
		if (marks.last_event != event->total)
			return false;
		event->before = event->total - register_at(heap_thread, growth);
	}
	return are_marks(event->before, marks.next_event);
}

static __always_inline bool read_jemalloc_event(struct pt_regs *regs, struct heap_event *event)
{
	struct jemalloc_marks marks;
	struct jemalloc_event told;

	if (bpf_probe_read_user(&told, sizeof(told), (void *)regs->si) || told.is_alloc > 1 ||
	    told.current - told.last_event + MAX_THREAD_DATA >= 2 * MAX_THREAD_DATA ||
	    bpf_probe_read_user(&event->total, sizeof(u64), (void *)told.current) ||
	    bpf_probe_read_user(&marks, sizeof(marks), (void *)told.last_event))
		return false;
	event->before = marks.last_event;
	event->address = told.last_event;
	event->current = told.current;
	event->kind = told.is_alloc ? PROFD_KIND_ALLOC : PROFD_KIND_FREE;
	event->thread_data = told.last_event -
			     (told.is_alloc ? __builtin_offsetof(struct thread_data, marks[0])
					    : __builtin_offsetof(struct thread_data, marks[1]));
	return are_marks(marks.last_event, marks.next_event);
}

static __always_inline bool is_counter(struct profd_heap_counter *counter, u64 address)
{
	return counter->address == address || !counter->address;
}

/* The counter at that address, or a place for it. NULL when a thread has more of them than fit. */
static __always_inline struct profd_heap_counter *counter_of(struct profd_heap *heap, u64 address)
{
	if (is_counter(&heap->counters[0], address))
		return &heap->counters[0];
	if (is_counter(&heap->counters[1], address))
		return &heap->counters[1];
	if (is_counter(&heap->counters[2], address))
		return &heap->counters[2];
	if (is_counter(&heap->counters[3], address))
		return &heap->counters[3];
	return NULL;
}

/* Whether nothing can have gone by unseen for want of a probe since the counter's last event. */
static __always_inline bool follows(const struct profd_heap_counter *counter,
				    const struct heap_event *event)
{
	return event->round && counter->round == event->round;
}

/* What has gone by since an event was last told of, as the thread's data say. False when nothing
 * has, or what the function was given are no such data.
 */
static __always_inline bool read_late_event(struct pt_regs *regs, u64 cookie,
					    struct profd_heap *heap, struct heap_event *event)
{
	u64 thread_data = regs->di;
	struct profd_heap_counter *counter;
	struct jemalloc_marks marks;
	bool known;

	barrier_var(thread_data);
	event->thread_data = thread_data;
	event->address = thread_data + PROFD_HEAP_FIELD(cookie);
	event->current = 0;
	event->kind = PROFD_PROBE_PLACE(cookie) == PROFD_HEAP_JEMALLOC_SLOW_ALLOC ? PROFD_KIND_ALLOC
										  : PROFD_KIND_FREE;
	counter = counter_of(heap, event->address);
	if (!counter || bpf_probe_read_user(&marks, sizeof(marks), (void *)event->address) ||
	    !are_marks(marks.last_event, marks.next_event) || !is_thread_data(thread_data))
		return false;
	/* Of a time without probes nothing is told. */
	known = counter->address && follows(counter, event);
	event->total = marks.last_event;
	event->before = known ? counter->total : event->total;
	return !known || (s64)(event->total - event->before) > 0;
}

/* A copy: the entry may be given to somebody else. False when it is not known. */
static __always_inline bool place_of(struct task_struct *task, struct thread_data_place *place)
{
	u64 memory = (u64)untrusted(task)->active_mm;
	struct thread_data_place *known;

	known = bpf_map_lookup_elem(&thread_data_places, &memory);
	if (!known)
		return false;
	*place = *known;
	return place->started == untrusted(task)->group_leader->start_time;
}

/* Whether all that the thread ever allocated falls into the time in which its process is watched.
 */
static __always_inline bool began_watched(struct task_struct *task,
					  const struct thread_data_place *place)
{
	return task->start_time > place->since;
}

/* Enters an event into the thread's totals. False when it is in them already: while probes are
 * renewed there are two in one place.
 */
static __always_inline bool enter_event(struct task_struct *task,
					struct profd_heap_counter *counter,
					const struct heap_event *event)
{
	struct thread_data_place place;
	s64 missing;

	if (counter->address && counter->events && event->total == counter->total &&
	    event->total != event->before)
		return false;
	if (!counter->address) {
		/* Its first events may have been while there were no probes. */
		counter->base =
			place_of(task, &place) && began_watched(task, &place) ? 0 : event->before;
		counter->total = event->before;
		counter->kind = event->kind;
		counter->module_id = event->module_id;
		counter->round = event->round;
		counter->current = event->address;
		barrier();
		counter->address = event->address;
	}
	if (event->current)
		counter->current = event->current;
	missing = event->before - counter->total;
	/* While there were no probes nothing was to be seen. */
	if (follows(counter, event)) {
		if (missing != 0)
			counter->gaps++;
		if (missing > 0)
			counter->unseen += missing;
	}
	counter->round = event->round;
	counter->total = event->total;
	/* A slow path met for the first time tells nothing but where the counter is. */
	if (event->total == event->before)
		return true;
	counter->events++;
	counter->seen += event->total - event->before;
	if (event->late)
		counter->late += event->total - event->before;
	return true;
}

/* Has the data of the process's other threads found, from those of the thread that has this event.
 */
static __always_inline void note_place(struct task_struct *task, const struct heap_event *event)
{
	u64 offset = event->thread_data - task->thread.fsbase;
	u64 current = event->current - event->thread_data;
	u64 memory = (u64)untrusted(task)->active_mm;
	struct thread_data_place place;

	if (!is_thread_data(event->thread_data))
		return;
	if (!place_of(task, &place)) {
		__builtin_memset(&place, 0, sizeof(place));
		place.started = untrusted(task)->group_leader->start_time;
		place.since = bpf_ktime_get_ns();
		place.offset = offset;
		place.module_id = event->module_id;
	}
	if (place.offset != offset)
		place.mixed = 1;
	else if (event->current && current < MAX_THREAD_DATA) {
		if (event->kind == PROFD_KIND_ALLOC)
			place.current[0] = current;
		else
			place.current[1] = current;
	}
	bpf_map_update_elem(&thread_data_places, &memory, &place, BPF_ANY);
}

static __always_inline bool has_both(const struct profd_heap *heap)
{
	return heap->counters[0].address && heap->counters[1].address;
}

/* Enters a count of a thread that had no event of it. */
static __always_inline void enter_quiet(struct profd_heap *heap, u32 kind, u64 thread_data,
					u64 field, u64 last_event, bool whole_life,
					const struct thread_data_place *place)
{
	struct profd_heap_counter *counter = counter_of(heap, thread_data + field);
	u16 current = kind == PROFD_KIND_ALLOC ? place->current[0] : place->current[1];

	if (!counter || counter->address)
		return;
	counter->base = whole_life ? 0 : last_event;
	counter->total = last_event;
	counter->kind = kind;
	counter->module_id = place->module_id;
	/* What comes before its first event is no gap: probes may not stand yet. */
	counter->round = 0;
	counter->current = thread_data + (current ? current : field);
	barrier();
	counter->address = thread_data + field;
}

/* The counts of a thread that had no event of one of them, from its data. What a thread that is
 * older than the watch had by its last event was before it. False when they are not known.
 */
static __always_inline bool enter_thread_data(struct task_struct *task, struct profd_heap *heap,
					      const struct thread_data *data, u64 address,
					      const struct thread_data_place *place)
{
	bool whole_life = began_watched(task, place);
	u64 allocated = data->marks[0].last_event;
	u64 freed = data->marks[1].last_event;

	/* A thread that never asked the allocator for anything. */
	if (!(allocated | freed | data->marks[0].next_event | data->marks[1].next_event))
		return true;
	if (data->has_cache > 1 || data->depth > 1 ||
	    !are_marks(allocated, data->marks[0].next_event) ||
	    !are_marks(freed, data->marks[1].next_event))
		return false;
	enter_quiet(heap, PROFD_KIND_ALLOC, address,
		    __builtin_offsetof(struct thread_data, marks[0]), allocated, whole_life, place);
	enter_quiet(heap, PROFD_KIND_FREE, address,
		    __builtin_offsetof(struct thread_data, marks[1]), freed, whole_life, place);
	return has_both(heap);
}

/* Walks from the place of the probe and counts the stack, in whole intervals: by how much the
 * allocation passed the mark says nothing of others like it (docs/sampling.md). The event stands
 * for `one_in` like it. False without memory for the walk.
 */
static __always_inline bool count_event(struct pt_regs *regs, struct profd_thread *thread,
					const struct heap_event *event, bool at_entry, u64 one_in)
{
	struct profd_sample_key key = {.sysno = -1};
	u64 intervals = (event->total - event->before) / PROFD_HEAP_INTERVAL;
	u64 weight;

	if (intervals > 1)
		key.arg0 = PROFD_HEAP_LARGE_ARGUMENT;
	else
		intervals = 1;
	weight = intervals * PROFD_HEAP_INTERVAL * one_in;

	key.thread_id = thread->thread_id;
	key.stack = own_stack(regs->ip, regs->sp, regs->bp, at_entry);
	if (!key.stack) {
		lose(PROFD_LOSS_HEAP_BUSY, 1);
		return false;
	}
	key.kind = event->kind;
	if (!count_heap(&key, weight)) {
		lose(PROFD_LOSS_HEAP_FULL, 1);
		lose(PROFD_LOSS_HEAP_FULL_BYTES, weight);
	}
	return true;
}

static __always_inline bool read_event(struct pt_regs *regs, u64 cookie,
				       struct heap_thread *heap_thread, struct heap_event *event)
{
	u32 place = PROFD_PROBE_PLACE(cookie);

	event->module_id = PROFD_PROBE_MODULE(cookie);
	event->late =
		place == PROFD_HEAP_JEMALLOC_SLOW_ALLOC || place == PROFD_HEAP_JEMALLOC_SLOW_FREE;
	if (event->late)
		return read_late_event(regs, cookie, &heap_thread->heap, event);
	if (place == PROFD_HEAP_JEMALLOC_EVENT)
		return read_jemalloc_event(regs, event);
	return read_inlined_event(regs, cookie, heap_thread, event);
}

static __always_inline void tally(u64 cookie, bool held)
{
	u32 key = PROFD_HEAP_TALLY_KEY(PROFD_PROBE_MODULE(cookie), PROFD_HEAP_NUMBER(cookie));
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
static __noinline bool verify_event(struct pt_regs *regs, u64 cookie,
				    struct heap_thread *heap_thread, struct heap_event *event)
{
	bool held = read_event(regs, cookie, heap_thread, event);

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
		.module_id = PROFD_PROBE_MODULE(cookie),
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
	if (!verify_event(regs, cookie, heap_thread, &event))
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
	record->pad = 0;
	if (heap)
		record->heap = *heap;
	else
		__builtin_memset(&record->heap, 0, sizeof(record->heap));
}

/* What the allocator's counter says as its thread exits. The memory may be another's by now: what
 * lies further from the last event than events do is it only if the marks beside it agree, as where
 * no probe stood.
 */
static __always_inline void read_own(struct profd_heap_counter *counter)
{
	struct jemalloc_marks marks;
	u64 total;

	if (!counter->address ||
	    bpf_probe_read_user(&total, sizeof(total), (void *)counter->current))
		return;
	if (total - counter->total < MAX_TAIL ||
	    ((s64)(total - counter->total) > 0 &&
	     !bpf_probe_read_user(&marks, sizeof(marks), (void *)counter->address) &&
	     are_marks(marks.last_event, marks.next_event) &&
	     total - marks.last_event < MAX_EVENT_INTERVAL))
		counter->total = total;
}

/* False when it could not be read. */
static __always_inline bool read_outside(struct task_struct *task,
					 struct profd_heap_counter *counter)
{
	struct memory_mapping mapping = {};
	u64 total;

	if (!counter->address)
		return true;
	if (!is_readable(task, counter->current, NULL, &mapping) ||
	    bpf_copy_from_user_task(&total, sizeof(total), (void *)counter->current, task, 0))
		return false;
	counter->total = total;
	return true;
}

/* What a thread that sleeps has allocated and freed without an event that was seen. False when that
 * is not known.
 */
static __always_inline bool look_at_thread_data(struct task_struct *task,
						struct profd_thread *thread,
						struct heap_thread *heap_thread,
						const struct thread_data_place *place)
{
	u64 address = task->thread.fsbase + place->offset;
	struct memory_mapping mapping = {};
	struct thread_data data;

	if (place->mixed)
		return false;
	if (has_both(&heap_thread->heap))
		return true;
	if (!is_readable(task, address, NULL, &mapping) ||
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
	bool known, whole, read;
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
	read = known && look_at_thread_data(task, thread, heap_thread, &place);
	begin_record(record, task, thread, &heap_thread->heap);
	record->exiting = 0;
	record->unread = !read;
	whole = read_outside(task, &record->heap.counters[0]);
	whole &= read_outside(task, &record->heap.counters[1]);
	whole &= read_outside(task, &record->heap.counters[2]);
	whole &= read_outside(task, &record->heap.counters[3]);
	/* Where there is no room for it the kernel comes here again. */
	if (!bpf_seq_write(ctx->meta->seq, record, sizeof(*record)))
		heap_thread->rest.known = whole && slept_since(&heap_thread->rest, task, thread);
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
	read_own(&record->heap.counters[0]);
	read_own(&record->heap.counters[1]);
	read_own(&record->heap.counters[2]);
	read_own(&record->heap.counters[3]);
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
