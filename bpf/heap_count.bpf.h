/* Counters of memory events by stack, in two epochs. Threads count at any time. */
#ifndef PROFD_BPF_HEAP_COUNT_BPF_H_
#define PROFD_BPF_HEAP_COUNT_BPF_H_

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "abi.h"
#include "aggregate.bpf.h"

/* The two epochs. */
struct counter_table heap_even SEC(".maps") __weak;
struct counter_table heap_odd SEC(".maps") __weak;

/* The live epoch. After changing it, the daemon waits until the memory of every walk was given back
 * (own_walk.bpf.h): whoever counts holds some of it until the event is counted.
 */
profd_u32 heap_epoch __weak;

/* Between take_walk and drop_walk only. False when the table is full. */
static __always_inline bool count_heap(struct profd_sample_key *key, u64 weight)
{
	return heap_epoch ? count_in(&heap_odd, key, weight) : count_in(&heap_even, key, weight);
}

#endif /* PROFD_BPF_HEAP_COUNT_BPF_H_ */
