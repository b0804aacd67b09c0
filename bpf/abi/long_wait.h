/* Single waits that were long, for the source `long_wait`. */
#ifndef PROFD_BPF_ABI_LONG_WAIT_H_
#define PROFD_BPF_ABI_LONG_WAIT_H_

#include "base.h"
#include "thread.h"

/* Waits that are told of from a duration of their own: those for poll and sleep are mostly idle,
 * and many.
 */
enum profd_long_wait_class {
	PROFD_LONG_WAIT_WORK = 0,
	PROFD_LONG_WAIT_REST = 1,
	PROFD_LONG_WAIT_CLASSES = 2,
};
#define PROFD_LONG_WAIT_CLASS(reason)                                                              \
	((reason) == PROFD_REASON_POLL || (reason) == PROFD_REASON_SLEEP ? PROFD_LONG_WAIT_REST    \
									 : PROFD_LONG_WAIT_WORK)

/* So many at once, and after that so many a second. */
#define PROFD_LONG_WAIT_BURST 1024
#define PROFD_LONG_WAITS_A_SECOND 2048

/* A wait that is over. */
struct profd_long_wait_record {
	profd_u32 type; /* enum profd_record_type */
	profd_u8 reason; /* enum profd_reason */
	profd_u8 earlier; /* it began before `begin`, when nobody watched */
	profd_u16 pad;
	profd_u64 thread_id;
	profd_u64 begin;
	profd_u64 duration; /* ns, until the thread could run again */
	profd_u64 stack; /* hash; 0: no tick saw the wait, so the rest is not known */
	profd_u64 waker; /* hash of the stack of who ended it; 0: not known */
	profd_u64 arg0; /* as in struct profd_visit */
	profd_s32 sysno;
	profd_u32 pad2;
};

PROFD_STATIC_ASSERT(sizeof(struct profd_long_wait_record) == 64, "long wait record size");

#endif /* PROFD_BPF_ABI_LONG_WAIT_H_ */
