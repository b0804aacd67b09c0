/* How waits for locks ended, and how many waits those that ticks saw stand for. */
#ifndef PROFD_BPF_WAIT_END_BPF_H_
#define PROFD_BPF_WAIT_END_BPF_H_

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "abi.h"
#include "long_wait.bpf.h"
#include "target.bpf.h"
#include "unwind.bpf.h"

/* The kernel's functions that end a wait at its deadline, and for a signal. Set by the daemon
 * once programs are loaded; 0: not known.
 */
profd_u64 timeout_begin SEC(".data.code") __weak = 0;
profd_u64 timeout_end SEC(".data.code") __weak = 0;
profd_u64 signal_begin SEC(".data.code") __weak = 0;
profd_u64 signal_end SEC(".data.code") __weak = 0;

/* A shorter duration counts as this one, ns: the clocks are not exact. */
#define LEAST_WAIT_NS 1024

/* A search for the function that ended a wait; lives on the stack. */
struct end_search {
	struct walk *walk;
	u32 first;
	u32 end; /* enum profd_wait_end */
};

static long look_for_end(u32 index, struct end_search *search)
{
	u64 frame = search->walk->record.frames[(search->first + index) & (PROFD_MAX_FRAMES - 1)];

	if (frame > timeout_begin && frame <= timeout_end)
		search->end = PROFD_END_TIMEOUT;
	else if (frame > signal_begin && frame <= signal_end)
		search->end = PROFD_END_SIGNAL;
	else
		return 0;
	return 1;
}

/* What `count` kernel frames of a waker say. Neither static nor inlined: the verifier follows it
 * once.
 */
__noinline u32 end_of_wait(struct walk *walk, u32 first, u32 count)
{
	struct end_search search = {.walk = walk, .first = first, .end = PROFD_END_WOKEN};

	if (!walk || !timeout_end || !signal_end || !count)
		return PROFD_END_UNKNOWN;
	bpf_loop(count, look_for_end, &search, 0);
	return search.end;
}

/* How long the wait has taken that ends now; 0: not known. The thread is off its CPU. */
static __always_inline u64 wait_until(struct profd_thread *thread, u64 now)
{
	u64 begin = thread->ledger.since + clock_distance;

	if (!ledger_goes_on(thread) || thread->ledger.phase != PROFD_PHASE_BLOCKED ||
	    began_unseen(thread, begin))
		return 0;
	return (s64)(now - begin) > LEAST_WAIT_NS ? now - begin : LEAST_WAIT_NS;
}

/* Of how many waits a wait of this weight and duration is one, times PROFD_ENDED_ONE. */
static __always_inline u64 waits_of(u64 weight, u64 ns)
{
	u64 most = (u64)PROFD_ENDED_MOST * PROFD_ENDED_ONE;
	u64 waits = (weight * PROFD_ENDED_ONE + ns / 2) / ns;

	return waits < most ? waits : most;
}

#endif /* PROFD_BPF_WAIT_END_BPF_H_ */
