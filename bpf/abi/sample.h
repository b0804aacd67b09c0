/* Counters by thread and stack. */
#ifndef PROFD_BPF_ABI_SAMPLE_H_
#define PROFD_BPF_ABI_SAMPLE_H_

#include "base.h"

/* What a sample measures. */
enum profd_kind {
	PROFD_KIND_WAIT = 0, /* time not running; weights are ns */
	PROFD_KIND_ALLOC = 1, /* memory allocated; weights are bytes */
	PROFD_KIND_FREE = 2, /* memory freed; weights are bytes */
	PROFD_KIND_INUSE = 3, /* memory in use: bytes of live objects */
	PROFD_KIND_RESIDENT = 4, /* resident memory, by first touch */
	PROFD_KIND_MAPPED = 5, /* private anonymous memory mapped; weights are bytes */
	PROFD_KIND_UNMAPPED = 6, /* the same, unmapped */
	PROFD_KIND_RETURNED = 7, /* pages returned while the addresses stay mapped (madvise) */
	PROFD_KIND_CPU = 8, /* time on a CPU; weights are ns */
	PROFD_KIND_DISK = 9, /* disk requests; weights are ns from the request to its completion */
	PROFD_KIND_DISK_QUEUE = 10, /* the same until the driver got them */
	PROFD_KIND_DISK_BYTES = 11, /* the same; weights are bytes */
	PROFD_KIND_WAKER = 12, /* waits by who ended them; weights are ns */
	PROFD_KIND_SYNC = 13, /* file syncs; weights are ns */
	PROFD_KIND_SWITCH = 14, /* context switches; weights are switches */
	PROFD_KIND_COUNT = 15,
	/* Not shown by itself: waits that ended, see PROFD_ENDED. */
	PROFD_KIND_ENDED = 32,
};

/* Key and value of the counters. One counter per (thread, kind, reason, syscall, argument, stack).
 */
struct profd_sample_key {
	profd_u64 thread_id;
	profd_u64 stack; /* hash of a stack record */
	profd_u64 arg0; /* first argument of the syscall if it names what is waited for (a file
			 * descriptor, a futex), else 0; for mapping calls the m of "one in m is
			 * counted", for switches too; for wakers the hash of the waiter's
			 * stack */
	profd_s32 sysno; /* -1 = not in a syscall */
	profd_u8 reason; /* enum profd_reason; waits and switches only */
	profd_u8 kind; /* enum profd_kind */
	profd_u8 pad[2];
};

struct profd_sample_value {
	profd_u64 weight; /* ns: sum of the tick intervals in force; or bytes or switches that the
			     events stand for */
	profd_u64 count; /* number of ticks or events */
};

PROFD_STATIC_ASSERT(sizeof(struct profd_sample_key) == 32, "sample key size");

#endif /* PROFD_BPF_ABI_SAMPLE_H_ */
