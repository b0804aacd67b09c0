/* The source `live`: objects that jemalloc samples. */
#ifndef PROFD_BPF_ABI_LIVE_H_
#define PROFD_BPF_ABI_LIVE_H_

#include "base.h"

/* An object that jemalloc sampled came to life, or is gone. Which one it was is not told of all
 * versions; but of objects of one context and one size any may stand for any other.
 */
struct profd_live_heap_record {
	profd_u32 type;
	profd_u32 module_id; /* that holds the allocator */
	profd_u64 time;
	profd_u64 thread_id;
	profd_u64 context; /* jemalloc's, of the thread and the stack that allocated the object */
	profd_u64 stack; /* hash; 0: the object is gone */
	profd_u64 size; /* bytes, usable */
	profd_u64 born; /* of one that is gone, by jemalloc's clock, ns; 0: not known */
	profd_s32 pid; /* in the daemon's PID namespace */
	profd_u32 pad;
};

/* Where a probe of the live heap stands: at the first instruction of jemalloc's ... */
enum profd_live_place {
	PROFD_LIVE_BORN_5_2 = 1, /* prof_malloc_sample_object(tsdn, ptr, usize, tctx) */
	PROFD_LIVE_GONE_5_2 = 2, /* prof_free_sampled_object(tsd, ptr, usize, tctx) */
	PROFD_LIVE_BORN_5_3 = 3, /* prof_malloc_sample_object(tsd, ptr, size, usize, tctx) */
	PROFD_LIVE_GONE_5_3 = 4, /* prof_free_sampled_object(tsd, [ptr,] usize, info) */
};

PROFD_STATIC_ASSERT(sizeof(struct profd_live_heap_record) == 64, "live heap record size");

#endif /* PROFD_BPF_ABI_LIVE_H_ */
