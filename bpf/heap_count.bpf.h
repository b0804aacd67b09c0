/* Counters of memory events by stack, in two epochs. Threads count at any time. */
#ifndef PROFD_BPF_HEAP_COUNT_BPF_H_
#define PROFD_BPF_HEAP_COUNT_BPF_H_

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "abi.h"
#include "aggregate.bpf.h"
#include "own_walk.bpf.h"

/* The two epochs. */
struct counter_table heap_even SEC(".maps") __weak;
struct counter_table heap_odd SEC(".maps") __weak;

/* The live epoch. After changing it, the daemon waits until the memory of every walk was given back
 * (own_walk.bpf.h): whoever counts holds some of it until the event is counted.
 */
profd_u32 heap_epoch __weak;

enum heap_count {
	HEAP_COUNTED,
	HEAP_BUSY, /* no memory for the walk */
	HEAP_FULL, /* walked, but the table has no room */
};

/* Walks from a probe and counts the stack, as one that stands for this weight. `at_entry`: the
 * probe is at a function's first instruction.
 */
static __always_inline enum heap_count
count_heap(struct pt_regs *regs, struct profd_sample_key *key, bool at_entry, u64 weight)
{
	bool counted;
	u32 slot;

	if (!take_walk(&slot))
		return HEAP_BUSY;
	key->stack = own_stack_in(slot, regs->ip, regs->sp, regs->bp, at_entry);
	counted = heap_epoch ? count_in(&heap_odd, key, weight) : count_in(&heap_even, key, weight);
	drop_walk(slot);
	return counted ? HEAP_COUNTED : HEAP_FULL;
}

#endif /* PROFD_BPF_HEAP_COUNT_BPF_H_ */
