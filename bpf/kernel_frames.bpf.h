/* Kernel frames at the head of a walk's record. */
#ifndef PROFD_BPF_KERNEL_FRAMES_BPF_H_
#define PROFD_BPF_KERNEL_FRAMES_BPF_H_

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "abi.h"
#include "unwind.bpf.h"

/* Not a loop: 6.1 refuses one whose back edge clang lays out as a fall-through. */
static long hash_kernel_frame(u32 index, struct walk **walk)
{
	(*walk)->hash = mix((*walk)->hash, (*walk)->record.frames[index & (PROFD_MAX_FRAMES - 1)]);
	return 0;
}

/* Prepares the walk of a user stack that follows `count` kernel frames in its record. */
static __always_inline void begin_after_kernel(struct walk *walk, u32 count)
{
	walk->hash = 0;
	bpf_loop(count, hash_kernel_frame, &walk, 0);
	walk->torn = 0;
	walk->map_busy = 0;
	walk->window_size = 0;
	walk->frames = count;
	walk->frame_pointers = 0;
	walk->result = PROFD_WALK_NO_USER;
}

#endif /* PROFD_BPF_KERNEL_FRAMES_BPF_H_ */
