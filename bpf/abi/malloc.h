/* The source `malloc`: bursts of tracing of glibc's malloc. */
#ifndef PROFD_BPF_ABI_MALLOC_H_
#define PROFD_BPF_ABI_MALLOC_H_

#include "base.h"

/* Where a probe of a burst stands: at the begin of glibc's ... */
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

/* `arg0` of a sample whose weight is an estimate from bursts; of other bytes it is 0. */
#define PROFD_BURST_ARGUMENT 1

/* What a thread did in a burst. */
struct profd_malloc_thread {
	profd_u64 allocated; /* bytes, usable, of all calls */
	profd_u64 freed;
	profd_u32 allocations;
	profd_u32 frees;
	profd_u32 calls; /* runs into a probe */
	profd_u32 stepped; /* of these, at an instruction that is not emulated */
	profd_u64 ns; /* of all runs, without the way into the program and out */
	profd_u64 first_ns, last_ns; /* when the burst began, and the last run ended */
	profd_u64 queued_ns; /* in between, for a CPU */
	profd_u64 waited_ns; /* from the end of a run to the next, where the thread waited meanwhile
			      */
	profd_u64 last_delay; /* the kernel's run_delay and nvcsw at the end of the last run */
	profd_u64 last_switches;
	profd_u32 module_id;
	profd_u32 pad;
};

/* Cost of the program in bursts. Per CPU. */
struct profd_malloc_cost {
	profd_u64 calls; /* of threads of targets, before and after the burst included */
	profd_u64 stepped;
	profd_u64 ns; /* without the way into the program and out */
};

PROFD_STATIC_ASSERT(sizeof(struct profd_malloc_thread) == 96, "malloc thread size");

#endif /* PROFD_BPF_ABI_MALLOC_H_ */
