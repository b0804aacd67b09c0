/* Stacks are sent to the daemon once; after that only their hash is used. */
#ifndef PROFD_BPF_STACKS_BPF_H_
#define PROFD_BPF_STACKS_BPF_H_

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "abi.h"
#include "loss.bpf.h"
#include "target.bpf.h"

/* Hashes of the stacks that the daemon has. If this is emptied, stacks are sent again. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, u64);
	__type(value, u8);
} known_stacks SEC(".maps") __weak;

/* Sends a stack unless the daemon has it. False if the ring buffer is full. */
static __always_inline bool intern_stack(struct profd_stack_record *record)
{
	u32 frames = record->kernel_frames + record->user_frames;
	u8 one = 1;

	if (bpf_map_lookup_elem(&known_stacks, &record->hash))
		return true;
	barrier_var(frames);
	if (frames > PROFD_MAX_FRAMES)
		frames = PROFD_MAX_FRAMES;
	record->type = PROFD_RECORD_STACK;
	if (bpf_ringbuf_output(&events, record, PROFD_STACK_HEADER_SIZE + frames * 8,
			       BPF_RB_NO_WAKEUP)) {
		lose(PROFD_LOSS_RING_FULL_STACK, 1);
		return false;
	}
	if (bpf_map_update_elem(&known_stacks, &record->hash, &one, BPF_ANY))
		lose(PROFD_LOSS_KNOWN_FULL, 1);
	return true;
}

#endif /* PROFD_BPF_STACKS_BPF_H_ */
