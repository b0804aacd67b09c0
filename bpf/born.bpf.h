/* New threads, for the tick to visit. The daemon reads them from memory: nothing waits for the ring
 * to be read.
 */
#ifndef PROFD_BPF_BORN_BPF_H_
#define PROFD_BPF_BORN_BPF_H_

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "abi.h"

/* How many were listed. */
profd_u64 births_listed;

/* The last of them, by their numbers, from 1 on. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PROFD_MAX_BORN);
	__type(key, u32);
	__type(value, struct profd_born);
} born_threads SEC(".maps");

static __always_inline void list_born(u64 thread_id, s32 kernel_tid)
{
	u64 number = __sync_fetch_and_add(&births_listed, 1) + 1;
	u32 slot = number % PROFD_MAX_BORN;
	struct profd_born *born = bpf_map_lookup_elem(&born_threads, &slot);

	if (!born)
		return;
	*(volatile u64 *)&born->number = 0;
	barrier();
	*(volatile u64 *)&born->thread_id = thread_id;
	*(volatile s32 *)&born->kernel_tid = kernel_tid;
	barrier();
	*(volatile u64 *)&born->number = number;
}

#endif /* PROFD_BPF_BORN_BPF_H_ */
