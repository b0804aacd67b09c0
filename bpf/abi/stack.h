/* Stacks: frames, ends of walks, records. */
#ifndef PROFD_BPF_ABI_STACK_H_
#define PROFD_BPF_ABI_STACK_H_

#include "base.h"

/* How a walk of a user stack ended. Only COMPLETE ends at a proven root. */
enum profd_walk {
	PROFD_WALK_COMPLETE = 0,
	PROFD_WALK_TOO_DEEP = 1, /* more than PROFD_MAX_USER_FRAMES frames */
	PROFD_WALK_NO_RULE = 2, /* no unwind rule for the address and no usable frame pointer */
	PROFD_WALK_RULES_PENDING = 3, /* first sight of the module; its rules follow */
	PROFD_WALK_UNREADABLE = 4, /* stack memory could not be read */
	PROFD_WALK_NO_PROGRESS = 5, /* the next frame would not be above this one */
	PROFD_WALK_UNSUPPORTED = 6, /* a rule of a kind the walker does not know */
	PROFD_WALK_MAP_BUSY = 7, /* the memory map was locked by the target */
	PROFD_WALK_NOT_MAPPED = 8, /* the address is in no mapping */
	PROFD_WALK_NO_USER = 9, /* the thread has no user registers */
	PROFD_WALK_TORN = 10, /* the thread ran during the walk; the stack was discarded */
	PROFD_WALK_LOST = 11, /* the stack could not be sent (ring buffer full) */
	PROFD_WALK_COUNT = 12,
};

#define PROFD_MAX_KERNEL_FRAMES 64
#define PROFD_MAX_USER_FRAMES 192
#define PROFD_MAX_FRAMES (PROFD_MAX_KERNEL_FRAMES + PROFD_MAX_USER_FRAMES)

/* A frame is 64 bits: a kernel address (top 16 bits all ones), or 1 << 63 | module id << 32 | file
 * offset, or an address that is in no file (bit 63 clear). Code at 4 GiB of a file or beyond counts
 * as in no file. Return addresses are stored unchanged, not minus one; the innermost user frame is
 * the exact program counter.
 */
#define PROFD_FRAME_IN_FILE (1ULL << 63)
#define PROFD_FRAME_MODULE_SHIFT 32
#define PROFD_FRAME_OFFSET_MASK 0xffffffffULL
#define PROFD_FRAME_KERNEL (0xffffULL << 48)
#define PROFD_FRAME(module, offset)                                                                \
	(PROFD_FRAME_IN_FILE | (profd_u64)(module) << PROFD_FRAME_MODULE_SHIFT |                   \
	 ((offset) & PROFD_FRAME_OFFSET_MASK))
/* The largest module id: those above it would look like kernel addresses. */
#define PROFD_MAX_MODULE_ID 0x7ffeffffU

struct profd_stack_record {
	profd_u32 type;
	profd_u8 walk; /* enum profd_walk */
	profd_u8 frame_pointers; /* number of frames found by frame pointer, saturating */
	profd_u16 kernel_frames;
	profd_u16 user_frames;
	profd_u16 pad[3];
	profd_u64 hash;
	profd_u64
		frames[PROFD_MAX_FRAMES]; /* kernel, innermost first, then user, innermost first */
};
#define PROFD_STACK_HEADER_SIZE 24

/* Walks in the threads' own context: how many at a time on each CPU. */
#define PROFD_OWN_WALKS_PER_CPU 2
#define PROFD_OWN_WALK_WORDS 16 /* a CPU's, of which it uses the first: a cache line */
#define PROFD_MAX_OWN_WALKS 1024

PROFD_STATIC_ASSERT(__builtin_offsetof(struct profd_stack_record, frames) ==
			    PROFD_STACK_HEADER_SIZE,
		    "stack header size");

#endif /* PROFD_BPF_ABI_STACK_H_ */
