/* The source `jemalloc`: totals of threads and places of events. */
#ifndef PROFD_BPF_ABI_JEMALLOC_H_
#define PROFD_BPF_ABI_JEMALLOC_H_

#include "base.h"
#include "probe.h"

/* A total that an allocator keeps of a thread, in that thread's memory: bytes allocated, or bytes
 * freed, since the thread began. Every so many bytes the allocator pauses for an event; `total` is
 * the counter as of the last event that was seen. All that is counted is cumulative.
 */
struct profd_heap_counter {
	profd_u64 address; /* of what it was at the last event: its identity; 0 = no event yet */
	profd_u64 current; /* address of the counter itself; while not known, as above */
	profd_u64 base; /* the counter as of the event before the first that was seen */
	profd_u64 total;
	profd_u64 seen; /* bytes that the events which were seen stand for */
	profd_u64 unseen; /* bytes of events that nobody saw: what lies between two that were */
	profd_u64 late; /* of these bytes, those told of by a slow path, after their event */
	profd_u32 events; /* seen */
	profd_u32 gaps;
	profd_u32 round; /* of probes, at the last event: between two rounds some were missing; 0:
			    not known */
	profd_u16 kind; /* enum profd_kind */
	profd_u16 module_id; /* that holds the allocator */
};
/* Two of an allocator; a process may hold two allocators. */
#define PROFD_HEAP_COUNTERS 4

/* What jemalloc lets a count grow by before it has an event, bytes. */
#define PROFD_HEAP_INTERVAL (64 * 1024)
/* arg0 of the counters of events that stand for more than one interval: an allocation which is
 * larger than that is always seen. 1 is PROFD_BURST_ARGUMENT.
 */
#define PROFD_HEAP_LARGE_ARGUMENT 2

/* The totals of a thread. */
struct profd_heap {
	struct profd_heap_counter counters[PROFD_HEAP_COUNTERS];
};

/* The totals of a thread at a drain, and when it exits. `total` is what the allocator's counter
 * says at present, or where it cannot be read, said at the last event.
 */
struct profd_heap_record {
	profd_u32 type;
	profd_u32 exiting;
	profd_u64 thread_id;
	profd_u32 none_ended; /* no thread of its process has, so far */
	profd_u32 unread; /* it may have allocated or freed more, that no counter here knows */
	struct profd_heap heap;
};

/* Where a probe stands. */
enum profd_heap_place {
	/* In jemalloc's te_event_trigger(tsd, ctx), where its arguments are still in their
	   registers. */
	PROFD_HEAP_JEMALLOC_EVENT = 1,
	/* In a copy of it, at the store of the new count as that of the last event; or after it,
	 * where a register holds what the count grew by since that.
	 */
	PROFD_HEAP_JEMALLOC_INLINED_ALLOC = 2,
	PROFD_HEAP_JEMALLOC_INLINED_FREE = 3,
	/* In a function of the allocator's slow path, whose first argument, in its register, is the
	 * thread's data (tsd): it tells of events in code that was not found, after them.
	 */
	PROFD_HEAP_JEMALLOC_SLOW_ALLOC = 4,
	PROFD_HEAP_JEMALLOC_SLOW_FREE = 5,
};

/* The cookie of such a probe: as of any, and number:3 << 5 | value register:5 << 24 |
 * thread register:5 << 29 | growth register:5 << 34 | number:2 << 39 | field:23 << 41. Registers by
 * their place in struct pt_regs; field: of the last event's count, in the thread's data; number: of
 * the place in its module, its low bits first.
 */
#define PROFD_HEAP_SLOW_COOKIE(place, stepped, module, field)                                      \
	(PROFD_PROBE_COOKIE(place, stepped, module) | (profd_u64)(field) << 41)
/* `growth`: PROFD_NO_REGISTER where the old count is in memory still. */
#define PROFD_HEAP_INLINED_COOKIE(place, stepped, module, value, growth, thread, field)            \
	(PROFD_HEAP_SLOW_COOKIE(place, stepped, module, field) | (profd_u64)(value) << 24 |        \
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

/* Whose allocator. */
struct profd_heap_round_key {
	profd_u32 pid; /* as the daemon sees it */
	profd_u32 module_id;
};

/* What came by at a place that code alone said to be an event's, by module and number. */
#define PROFD_HEAP_TALLY_KEY(module, number) ((module) * PROFD_HEAP_NUMBERS + (number))
#define PROFD_MAX_HEAP_TALLIES 1024
#define PROFD_MAX_HEAP_ROUNDS 4096
/* The last one; then they begin at 1 again. Numbers of 16 bits came round within minutes. */
#define PROFD_LAST_HEAP_ROUND 0x7fffffff
struct profd_heap_tally {
	profd_u64 held; /* events, with the thread's data as they are at one */
	profd_u64 refused; /* anything else: told to nobody */
};

PROFD_STATIC_ASSERT(sizeof(struct profd_heap_counter) == 72, "heap counter size");

#endif /* PROFD_BPF_ABI_JEMALLOC_H_ */
