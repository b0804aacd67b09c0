/* Ways to lose something. */
#ifndef PROFD_BPF_ABI_LOSS_H_
#define PROFD_BPF_ABI_LOSS_H_

#include "base.h"

/* Ways to lose something. Per-CPU counters in the map `losses`, indexed by this. */
enum profd_loss {
	PROFD_LOSS_COUNTERS_FULL = 0, /* sample not counted: counter map full */
	PROFD_LOSS_COUNTERS_FULL_NS = 1, /* and its weight, ns */
	PROFD_LOSS_RING_FULL_STACK = 2,
	PROFD_LOSS_RING_FULL_EXIT = 3, /* last record of a known thread not handed over */
	PROFD_LOSS_RING_FULL_EVENT = 4,
	PROFD_LOSS_THREAD_STORAGE = 5, /* a thread could not be marked */
	PROFD_LOSS_SWITCH_UNSEEN = 6, /* counted but not reported; found by the daemon */
	PROFD_LOSS_TORN_WALK = 7,
	PROFD_LOSS_TORN_LEDGER = 8, /* a thread kept switching while its ledger was read */
	PROFD_LOSS_KNOWN_FULL = 9, /* map of known stacks full; stacks are sent again */
	PROFD_LOSS_MODULES_FULL = 10, /* frames in a module that the table has no place for */
	PROFD_LOSS_HEAP_FULL = 11, /* heap event not counted: counter map full */
	PROFD_LOSS_HEAP_FULL_BYTES = 12, /* and its weight, bytes */
	PROFD_LOSS_HEAP_BUSY = 13, /* heap event without a stack: no memory free for the walk */
	PROFD_LOSS_HEAP_STORAGE = 14, /* heap event of a thread whose totals found no place */
	PROFD_LOSS_FAULT_BUSY =
		15, /* page of the sample without a record: no memory for the walk */
	PROFD_LOSS_LIVE_BORN = 16, /* sampled object that came to life and is not counted */
	PROFD_LOSS_LIVE_GONE = 17, /* sampled object that is gone and still counted */
	PROFD_LOSS_MAP_LOST = 18, /* mapping call not counted */
	PROFD_LOSS_MAP_BUSY = 19, /* mapping call on memory that was taken for anonymous */
	PROFD_LOSS_MALLOC_FULL = 20, /* call in a burst that is not counted, or without its stack */
	PROFD_LOSS_CPU_LOST = 21, /* sample of running code not counted */
	PROFD_LOSS_CPU_LOST_NS = 22, /* and its weight, ns */
	PROFD_LOSS_DISK_LOST = 23, /* disk request not counted: a table was full */
	PROFD_LOSS_WAKER_LOST = 24, /* wait whose waker was not counted */
	PROFD_LOSS_WAKER_LOST_NS = 25, /* and its weight, ns */
	PROFD_LOSS_LONG_WAIT = 26, /* long wait that was not told of by itself */
	PROFD_LOSS_DURATION = 27, /* wait that is not in the histogram of its thread */
	PROFD_LOSS_OBJECT = 28, /* wait whose object was not described: too many new ones */
	PROFD_LOSS_LOCK_WAIT = 29, /* wait for a lock that is not counted by its length and end */
	PROFD_LOSS_SWITCH = 30, /* context switches that a sample stood for which was not counted */
	PROFD_LOSS_HEAP_LATE = 31, /* heap totals of a thread that a drain could not read */
	PROFD_LOSS_COUNT = 32,
};

#endif /* PROFD_BPF_ABI_LOSS_H_ */
