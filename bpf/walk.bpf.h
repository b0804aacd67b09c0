/* The state of a walk of a user stack, and the record of the stack that it ends with. */
#ifndef PROFD_BPF_WALK_BPF_H_
#define PROFD_BPF_WALK_BPF_H_

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "abi.h"

#define STACK_PAGE 4096
#define RULE_CACHE 512
#define MAPPING_CACHE 256

/* Where an address lies, as bpf_find_vma tells it. */
struct mapping {
	u64 start;
	u64 end;
	u64 file_offset; /* bytes, of start */
	struct profd_module_key key; /* ino 0: neither a file nor the vDSO */
};

/* What is known of a file. */
struct known_module {
	u32 module_id; /* 0: the table is full */
	u32 state;
	u32 watch;
	u32 announced; /* the daemon was told, or there is nothing to tell */
};

/* A cached mapping, valid while the mappings of its address space do not change. */
enum cached_kind {
	CACHED_CODE = 1,
	CACHED_MEMORY = 2, /* anonymous memory: reading it does not block */
};
struct cached_mapping {
	u64 space; /* walk.space */
	u64 start, end, file_offset;
	u32 changes; /* of the address space at lookup */
	u32 module_id;
	u8 state;
	u8 kind;
	u8 pad[6];
};

struct shared_mapping {
	struct cached_mapping mapping;
	u64 check; /* its memory may be given to another entry while it is read */
};

/* From a frame to its caller. */
struct step {
	u64 cfa; /* canonical frame address: the caller's stack pointer */
	u64 cfa_at; /* where it is written; 0: it is known */
	u64 fp_at; /* where the caller's frame pointer is; 0: still in the register */
	u64 pc_at;
	u64 kind; /* of the rule */
};

/* State of one walk, in a map value, so that the verifier need not track it. */
struct walk {
	u64 pc, sp, fp;
	u64 hash;
	u64 switches; /* of the thread at the start: it must not run during the walk */
	u64 window_start; /* address of window[0] */
	u64 window_size; /* bytes valid */
	u64 space; /* identifies the address space */
	u64 bottom; /* stack pointer at the start; nothing below it is read */
	u64 map_start, map_end, map_offset; /* mapping of the last frame */
	u32 map_module, map_state;
	u32 frames; /* kernel and user */
	u32 pad;
	u8 result; /* enum profd_walk */
	u8 exact; /* pc is an instruction, not a return address */
	u8 frame_pointers;
	u8 torn; /* the thread ran during the walk */
	u8 map_busy; /* stack memory could not be looked up: the map was locked */
	u8 hurried; /* do not retry if the map is locked */
	u8 in_interrupt; /* the kernel tells one mapping only */
	u8 at_entry; /* pc is a function's first instruction */
	u8 in_cache; /* a mapping was found there, perhaps of before the last change */
	u8 in_shared;
	u8 never_ran; /* the thread: only its innermost frame is one */
	u8 anonymous; /* the page that is touched; known for sure */
	u8 pad2[4];
	struct step step;
	struct shared_mapping shared; /* a copy */
	struct mapping found; /* by the last question to the kernel */
	struct known_module known; /* of its file */
	struct profd_stack_record record;
	u64 window[STACK_PAGE / 8]; /* part of the stack, read on demand */
	/* Rules found before, by frame: code repeats, and each step of a search is a cache miss. */
	struct {
		u64 frame;
		u64 rule;
	} rules[RULE_CACHE];
	struct cached_mapping mappings[MAPPING_CACHE];
};

/* A walk of a task's stack. Small, because it is on the BPF stack. */
struct walker {
	struct task_struct *task;
	struct walk *walk;
};

static __always_inline u64 mix(u64 hash, u64 value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
	return hash ^ (hash >> 29);
}

/* Completes the record of a walked stack. */
static __always_inline void finish_stack(struct walk *walk, u32 kernel_frames)
{
	struct profd_stack_record *record = &walk->record;

	record->kernel_frames = kernel_frames;
	record->user_frames = walk->frames - kernel_frames;
	record->walk = walk->result;
	record->frame_pointers = walk->frame_pointers;
	record->hash = mix(mix(walk->hash, kernel_frames), walk->result) | 1;
}

/* A stack without frames, with only the reason. */
static __always_inline void empty_stack(struct profd_stack_record *record, u8 result)
{
	record->kernel_frames = 0;
	record->user_frames = 0;
	record->frame_pointers = 0;
	record->walk = result;
	record->hash = mix(0, result) | 1;
}

#endif /* PROFD_BPF_WALK_BPF_H_ */
