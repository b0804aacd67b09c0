/* Where jemalloc keeps a thread's totals, what they say at an event, and what is known of the
 * thread since.
 */
#ifndef PROFD_BPF_JEMALLOC_DATA_BPF_H_
#define PROFD_BPF_JEMALLOC_DATA_BPF_H_

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "abi.h"
#include "loss.bpf.h"
#include "registers.bpf.h"
#include "rest.bpf.h"
#include "target.bpf.h"

/* What is known of a thread that had an event. Made at the first one. */
struct heap_thread {
	struct profd_heap heap;
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
	u16 watch_id;
	u16 mixed; /* there are two such places: another allocator, or storage that is not static */
	u16 current[2]; /* in there: the counts of what was allocated, and freed; 0: not known */
};

/* By memory (struct mm_struct), as the first event of a thread told it. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, PROFD_THREAD_DATA_PLACES); /* at least; set by the daemon */
	__type(key, u64);
	__type(value, struct thread_data_place);
} thread_data_places SEC(".maps");

/* By PROFD_HEAP_TALLY_KEY. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
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
	u32 watch_id;
	u32 round; /* 0: it is not known since when all probes stand */
	bool late; /* told by a slow path, after it */
};

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
					       struct heap_event *event)
{
	u32 growth = PROFD_HEAP_GROWTH_REGISTER(cookie);
	struct jemalloc_marks marks;
	u64 thread_data;

	thread_data = register_at(regs, PROFD_HEAP_THREAD_REGISTER(cookie));
	event->total = register_at(regs, PROFD_HEAP_VALUE_REGISTER(cookie));
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
		event->before = event->total - register_at(regs, growth);
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

/* Which of a thread's counters is at an address, or which free one it can have; else
 * PROFD_HEAP_COUNTERS. Neither static nor inlined: the verifier would follow what is done with each
 * of them.
 */
__noinline u32 number_of_counter(struct profd_heap *heap, u64 address)
{
	if (!heap)
		return PROFD_HEAP_COUNTERS;
	_Static_assert(PROFD_HEAP_COUNTERS == 4, "each counter is looked at");
	if (is_counter(&heap->counters[0], address))
		return 0;
	if (is_counter(&heap->counters[1], address))
		return 1;
	if (is_counter(&heap->counters[2], address))
		return 2;
	if (is_counter(&heap->counters[3], address))
		return 3;
	return PROFD_HEAP_COUNTERS;
}

/* The counter at that address, or a place for it. NULL when a thread has more of them than fit. */
static __always_inline struct profd_heap_counter *counter_of(struct profd_heap *heap, u64 address)
{
	u32 number = number_of_counter(heap, address);

	barrier_var(number); /* the mask comes last, where the verifier sees it */
	return number < PROFD_HEAP_COUNTERS ? &heap->counters[number & (PROFD_HEAP_COUNTERS - 1)]
					    : NULL;
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
		counter->watch_id = event->watch_id;
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
		place.watch_id = event->watch_id;
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
	counter->watch_id = place->watch_id;
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

#endif /* PROFD_BPF_JEMALLOC_DATA_BPF_H_ */
