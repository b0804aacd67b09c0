/* The source `malloc`: glibc's malloc, traced in bursts. */
#ifndef PROFD_BPF_ABI_MALLOC_H_
#define PROFD_BPF_ABI_MALLOC_H_

#include "base.h"

/* Place of a burst's probe: the start of one of glibc's functions. */
enum profd_malloc_place {
	PROFD_MALLOC_MALLOC = 1, /* malloc(size) */
	PROFD_MALLOC_CALLOC = 2, /* calloc(number, size) */
	PROFD_MALLOC_REALLOC = 3, /* realloc(ptr, size) */
	PROFD_MALLOC_FREE = 4, /* free(ptr) */
	PROFD_MALLOC_MEMALIGN = 5, /* memalign(alignment, size), aligned_alloc */
	PROFD_MALLOC_POSIX_MEMALIGN = 6, /* posix_memalign(where, alignment, size) */
	PROFD_MALLOC_VALLOC = 7, /* valloc(size) */
	PROFD_MALLOC_PVALLOC = 8, /* pvalloc(size) */
};

/* `arg0` of samples whose weight is an estimate from bursts; 0 for other bytes. */
#define PROFD_BURST_ARGUMENT 1

/* What a thread did in a burst. */
struct profd_malloc_thread {
	profd_u64 allocated; /* usable bytes of all calls */
	profd_u64 freed;
	profd_u32 allocations;
	profd_u32 frees;
	profd_u32 calls; /* probe hits */
	profd_u32 stepped; /* of these, on an instruction that is not emulated */
	profd_u64 ns; /* of all runs; excludes entering and leaving the program */
	profd_u64 first_ns, last_ns; /* start of the burst, end of the last run */
	profd_u64 queued_ns; /* on the run queue in between */
	profd_u64 waited_ns; /* between runs during which the thread waited */
	profd_u64 last_delay; /* the kernel's run_delay and nvcsw at the end of the last run */
	profd_u64 last_switches;
	profd_u32 watch_id;
	profd_u32 pad;
};

/* Cost of the program during bursts. Per CPU. */
struct profd_malloc_cost {
	profd_u64 calls; /* in target threads, including calls just before and after the burst */
	profd_u64 stepped;
	profd_u64 ns; /* excludes entering and leaving the program */
};

PROFD_STATIC_ASSERT(sizeof(struct profd_malloc_thread) == 96, "malloc thread size");

#endif /* PROFD_BPF_ABI_MALLOC_H_ */
