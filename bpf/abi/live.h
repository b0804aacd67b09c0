/* The source `live`: objects that jemalloc samples. */
#ifndef PROFD_BPF_ABI_LIVE_H_
#define PROFD_BPF_ABI_LIVE_H_

#include "base.h"

/* An object that jemalloc sampled was allocated or freed. Not all versions say which object was
 * freed, but objects of the same context and size are interchangeable.
 */
struct profd_live_heap_record {
	profd_u32 type;
	profd_u32 watch_id; /* of the allocator */
	profd_u64 time;
	profd_u64 thread_id;
	profd_u64 context; /* jemalloc's: the thread and stack that allocated the object */
	profd_u64 stack; /* hash; 0: the object was freed */
	profd_u64 size; /* bytes, usable */
	profd_u64 born; /* on free: allocation time by jemalloc's clock, ns; 0: unknown */
	profd_s32 pid; /* in the daemon's PID namespace */
	profd_u32 pad;
};

/* Place of a live heap probe: the first instruction of one of jemalloc's functions. */
enum profd_live_place {
	PROFD_LIVE_BORN_5_2 = 1, /* prof_malloc_sample_object(tsdn, ptr, usize, tctx) */
	PROFD_LIVE_GONE_5_2 = 2, /* prof_free_sampled_object(tsd, ptr, usize, tctx) */
	PROFD_LIVE_BORN_5_3 = 3, /* prof_malloc_sample_object(tsd, ptr, size, usize, tctx) */
	PROFD_LIVE_GONE_5_3 = 4, /* prof_free_sampled_object(tsd, [ptr,] usize, info) */
};

PROFD_STATIC_ASSERT(sizeof(struct profd_live_heap_record) == 64, "live heap record size");

#endif /* PROFD_BPF_ABI_LIVE_H_ */
