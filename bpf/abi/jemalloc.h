/* The source `jemalloc`: totals per thread, and the places of probes. */
#ifndef PROFD_BPF_ABI_JEMALLOC_H_
#define PROFD_BPF_ABI_JEMALLOC_H_

#include "base.h"
#include "probe.h"

/* A running total that the allocator keeps in a thread's memory: bytes allocated, or bytes freed,
 * since the thread started. The allocator has an event each time the total has grown by an
 * interval. All counts here are cumulative.
 */
struct profd_heap_counter {
	profd_u64 address; /* of the total as of the last event: identifies it; 0 = no event yet */
	profd_u64 current; /* address of the total itself; same as above while unknown */
	profd_u64 base; /* the total as of the event before the first seen one */
	profd_u64 total; /* as of the last seen event */
	profd_u64 seen; /* bytes that seen events stand for */
	profd_u64 unseen; /* bytes of events that no probe saw, between two seen ones */
	profd_u64 late; /* part of `seen`: reported by a slow path, after the event */
	profd_u32 events; /* seen */
	profd_u32 gaps;
	profd_u32 round; /* of probes at the last event; some were detached between two rounds.
			    0: unknown */
	profd_u16 kind; /* enum profd_kind */
	profd_u16 watch_id; /* of the allocator */
};
/* Two per allocator, for at most two allocators. */
#define PROFD_HEAP_COUNTERS 4

/* Bytes by which a total grows between two events of jemalloc. */
#define PROFD_HEAP_INTERVAL (64 * 1024)
/* arg0 of counters of events that stand for more than one interval: a larger allocation always
 * has an event. 1 is PROFD_BURST_ARGUMENT.
 */
#define PROFD_HEAP_LARGE_ARGUMENT 2

/* The totals of a thread. */
struct profd_heap {
	struct profd_heap_counter counters[PROFD_HEAP_COUNTERS];
};

/* The totals of a thread, at a drain and at its exit. Each `total` is the allocator's present
 * value, or that of the last event if it cannot be read.
 */
struct profd_heap_record {
	profd_u32 type;
	profd_u32 exiting;
	profd_u64 thread_id;
	profd_u32 none_ended; /* no thread of its process has exited so far */
	profd_u32 unread; /* the thread may have allocated or freed more than the counters show */
	profd_s32 pid; /* of its process, in the daemon's PID namespace; 0: not visible there */
	profd_u32 late; /* some totals are those of the last event: the memory map was locked */
	struct profd_heap heap;
};

/* Place of a probe. */
enum profd_heap_place {
	/* In jemalloc's te_event_trigger(tsd, ctx), with the arguments still in their registers. */
	PROFD_HEAP_JEMALLOC_EVENT = 1,
	/* In an inlined copy, at the store that makes the new total that of the last event. Or
	 * after the store, while a register still holds the growth.
	 */
	PROFD_HEAP_JEMALLOC_INLINED_ALLOC = 2,
	PROFD_HEAP_JEMALLOC_INLINED_FREE = 3,
	/* In a function of the slow path, whose first argument is the thread's data (tsd). Reports
	 * events in code that was not found, after they happened.
	 */
	PROFD_HEAP_JEMALLOC_SLOW_ALLOC = 4,
	PROFD_HEAP_JEMALLOC_SLOW_FREE = 5,
};

/* Cookie of its probe: PROFD_PROBE_COOKIE and number:3 << 5 | value register:5 << 24 |
 * thread register:5 << 29 | growth register:5 << 34 | number:2 << 39 | field:23 << 41. Registers
 * are indexes into struct pt_regs. field: offset of the last event's total in the thread's data.
 * number: of the place in its module, low bits first.
 */
#define PROFD_HEAP_SLOW_COOKIE(place, stepped, watch, field)                                       \
	(PROFD_PROBE_COOKIE(place, stepped, watch) | (profd_u64)(field) << 41)
/* `growth`: PROFD_NO_REGISTER if the old total is still in memory. */
#define PROFD_HEAP_INLINED_COOKIE(place, stepped, watch, value, growth, thread, field)             \
	(PROFD_HEAP_SLOW_COOKIE(place, stepped, watch, field) | (profd_u64)(value) << 24 |         \
	 (profd_u64)(thread) << 29 | (profd_u64)(growth) << 34)
#define PROFD_HEAP_NUMBERED(cookie, number)                                                        \
	((cookie) | ((profd_u64)(number) & 7) << 5 | (profd_u64)((number) >> 3) << 39)
#define PROFD_HEAP_VALUE_REGISTER(cookie) ((profd_u32)((cookie) >> 24) & 31)
#define PROFD_HEAP_THREAD_REGISTER(cookie) ((profd_u32)((cookie) >> 29) & 31)
#define PROFD_HEAP_GROWTH_REGISTER(cookie) ((profd_u32)((cookie) >> 34) & 31)
#define PROFD_HEAP_FIELD(cookie) ((profd_u32)((cookie) >> 41))
#define PROFD_HEAP_NUMBER(cookie)                                                                  \
	(((profd_u32)((cookie) >> 5) & 7) | ((profd_u32)((cookie) >> 39) & 3) << 3)
#define PROFD_HEAP_NUMBERS 32
#define PROFD_NO_REGISTER 31
#define PROFD_PT_REGS_WORDS 21

/* An allocator in a process. */
struct profd_heap_round_key {
	profd_u32 pid; /* as the daemon sees it */
	profd_u32 watch_id;
};

/* Hits at a place that was found by its code alone, by watch id and number. */
#define PROFD_HEAP_TALLY_KEY(watch, number) ((watch) * PROFD_HEAP_NUMBERS + (number))
#define PROFD_MAX_HEAP_TALLIES 1024
/* Processes whose threads' data can be found, and as many more for each CPU, which may keep so many
 * unused.
 */
#define PROFD_THREAD_DATA_PLACES 8192
#define PROFD_THREAD_DATA_PLACES_PER_CPU 128
#define PROFD_MAX_HEAP_ROUNDS 4096
/* The largest round; the next one is 1. */
#define PROFD_LAST_HEAP_ROUND 0x7fffffff
struct profd_heap_tally {
	profd_u64 held; /* events: the thread's data look right */
	profd_u64 refused; /* other hits; they are ignored */
};

PROFD_STATIC_ASSERT(sizeof(struct profd_heap_counter) == 72, "heap counter size");

#endif /* PROFD_BPF_ABI_JEMALLOC_H_ */
