/* The source `fault`: pages of the sample that were touched. */
#ifndef PROFD_BPF_ABI_FAULT_H_
#define PROFD_BPF_ABI_FAULT_H_

#include "base.h"

/* A page of the sample was touched first. */
struct profd_page_record {
	profd_u32 type;
	profd_s32 pid; /* in the daemon's PID namespace */
	profd_u64 process_id; /* thread id of the process's leader; 0: not known */
	profd_u64 thread_id;
	profd_u64 address;
	profd_u64 stack; /* hash of a stack record */
	profd_u64 size; /* bytes that it stands for */
};

/* Of the pages that are touched first, those whose hash lies below a threshold are sampled: one in
 * so many, and the same page again when it is touched again. splitmix64's finalizer, upper half.
 */
static inline profd_u32 profd_page_hash(profd_u64 page, profd_u64 seed)
{
	profd_u64 h = page + seed;

	h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ULL;
	h = (h ^ (h >> 27)) * 0x94d049bb133111ebULL;
	return (profd_u32)((h ^ (h >> 31)) >> 32);
}

/* For one page in so many. */
static inline profd_u32 profd_page_threshold(profd_u32 one_in)
{
	return one_in > 1 ? (profd_u32)(0x100000000ULL / one_in) : 0xffffffff;
}

/* Cost of the page faults' program. Per CPU. */
struct profd_fault_cost {
	profd_u64 faults; /* of threads of targets */
	profd_u64 timed; /* runs without a stack whose time was taken, at random */
	profd_u64 timed_ns; /* without the way into the program and out */
	profd_u64 walks; /* runs with a stack; all are timed */
	profd_u64 walk_ns;
};

#endif /* PROFD_BPF_ABI_FAULT_H_ */
