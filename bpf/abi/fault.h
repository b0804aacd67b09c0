/* The source `fault`: first touches of sampled pages. */
#ifndef PROFD_BPF_ABI_FAULT_H_
#define PROFD_BPF_ABI_FAULT_H_

#include "base.h"

/* A sampled page was touched for the first time. */
struct profd_page_record {
	profd_u32 type;
	profd_s32 pid; /* in the daemon's PID namespace */
	profd_u64 process_id; /* thread id of the process's leader; 0: unknown */
	profd_u64 thread_id;
	profd_u64 address;
	profd_u64 stack; /* hash of a stack record */
	profd_u64 size; /* bytes that the page stands for */
	profd_u32 unsure; /* it may be of a file */
	profd_u32 pad;
};

/* Upper half of splitmix64's finalizer. A page is sampled if its hash is below a threshold. So a
 * page that is freed and touched again is sampled again.
 */
static inline profd_u32 profd_page_hash(profd_u64 page, profd_u64 seed)
{
	profd_u64 h = page + seed;

	h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ULL;
	h = (h ^ (h >> 27)) * 0x94d049bb133111ebULL;
	return (profd_u32)((h ^ (h >> 31)) >> 32);
}

/* The threshold for one page in `one_in`. */
static inline profd_u32 profd_page_threshold(profd_u32 one_in)
{
	return one_in > 1 ? (profd_u32)(0x100000000ULL / one_in) : 0xffffffff;
}

/* Cost of the page fault program. Per CPU. */
struct profd_fault_cost {
	profd_u64 faults; /* in target threads */
	profd_u64 timed; /* timed runs without a stack, chosen at random */
	profd_u64 timed_ns; /* excludes entering and leaving the program */
	profd_u64 walks; /* runs with a stack; all are timed */
	profd_u64 walk_ns;
	profd_u64 unsure; /* walks at pages of which nothing was known */
};

#endif /* PROFD_BPF_ABI_FAULT_H_ */
