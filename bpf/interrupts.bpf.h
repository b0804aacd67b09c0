/* Where in a stack of the kernel an interrupt begins. */
#ifndef PROFD_BPF_INTERRUPTS_BPF_H_
#define PROFD_BPF_INTERRUPTS_BPF_H_

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "abi.h"
#include "unwind.bpf.h"

/* The code by which interrupts enter the kernel. Set by the daemon once programs are loaded. */
profd_u64 entry_begin SEC(".data.code") __weak = 0;
profd_u64 entry_end SEC(".data.code") __weak = 0;

/* A search for the innermost frame in the entry code; lives on the stack. */
struct entry_search {
	struct walk *walk;
	u32 first;
	u32 found; /* frames from `first` up to and with it; 0: none */
};

static long look_for_entry(u32 index, struct entry_search *search)
{
	u64 frame = search->walk->record.frames[(search->first + index) & (PROFD_MAX_FRAMES - 1)];

	if (frame < entry_begin || frame >= entry_end)
		return 0;
	search->found = index + 1;
	return 1;
}

/* How many of `count` kernel frames belong to the innermost interrupt; 0: there is none among them.
 * What follows was interrupted. Neither static nor inlined: the verifier follows it once.
 */
__noinline u32 frames_of_interrupt(struct walk *walk, u32 first, u32 count)
{
	struct entry_search search = {.walk = walk, .first = first};

	if (!walk)
		return 0;
	bpf_loop(count, look_for_entry, &search, 0);
	return search.found;
}

#endif /* PROFD_BPF_INTERRUPTS_BPF_H_ */
