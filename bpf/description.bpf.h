/* Descriptions of what threads wait for: how they are made and sent. */
#ifndef PROFD_BPF_DESCRIPTION_BPF_H_
#define PROFD_BPF_DESCRIPTION_BPF_H_

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "abi.h"
#include "news.bpf.h"
#include "path.bpf.h"
#include "stacks.bpf.h"
#include "walk.bpf.h"

#define OBJECT_MEMBERS 16 /* of a set, that are looked at */

/* What poll is given. */
struct object_polled {
	s32 fd;
	u32 events;
};

/* A description in the making. */
struct object_scratch {
	struct task_struct *task;
	u64 arguments[3]; /* of the system call */
	s32 sysno;
	u32 polled_count;
	struct object_polled polled[OBJECT_MEMBERS];
	u64 selected[2][OBJECT_MEMBERS]; /* to read, to write */
	struct rb_node *nodes[2 * OBJECT_MEMBERS]; /* that are still to be looked at */
	u32 node_count;
	struct path_text text; /* with room behind the description */
	struct profd_stack_record record;
};

/* Of the tick, and of the look. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct object_scratch);
} object_scratch SEC(".maps");
#define OBJECT_OF_TICK 0
#define OBJECT_OF_LOOK 1

static const u64 object_zeros[PROFD_OBJECT_WORDS];

/* Until when the descriptions that were sent are paid for. */
profd_u64 objects_paid;

static __always_inline struct profd_object *object_in(struct object_scratch *scratch)
{
	return (struct profd_object *)scratch->record.frames;
}

static long mix_word(u32 index, struct object_scratch **at)
{
	struct profd_stack_record *record = &(*at)->record;

	record->hash = mix(record->hash, record->frames[index & (PROFD_MAX_FRAMES - 1)]);
	return 0;
}

/* Puts the text behind the description, and both into a record. */
static __always_inline void finish_object(struct object_scratch *scratch, u32 bytes)
{
	struct profd_stack_record *record = &scratch->record;
	u32 words = PROFD_OBJECT_WORDS;
	u32 text_words;

	if (bytes > PROFD_OBJECT_TEXT)
		bytes = PROFD_OBJECT_TEXT;
	barrier_var(bytes);
	text_words = (bytes + 7) / 8;
	if (bytes > 0 && bytes <= PROFD_OBJECT_TEXT) {
		record->frames[(words + text_words - 1) & (PROFD_MAX_FRAMES - 1)] = 0;
		bpf_probe_read_kernel(&record->frames[words], bytes, scratch->text.names);
		words += text_words;
	}
	record->kernel_frames = words;
	record->user_frames = 0;
	record->frame_pointers = 0;
	record->walk = PROFD_WALK_COMPLETE;
	record->hash = 0;
	bpf_loop(words, mix_word, &scratch, 0);
	record->hash |= PROFD_OBJECT_BIT | 1;
}

/* Sends a description unless the daemon has it. False: there were too many new ones, or no room. */
static __always_inline bool send_description(struct profd_stack_record *record, u64 *paid,
					     u32 burst, u64 a_second)
{
	return bpf_map_lookup_elem(&known_stacks, &record->hash) ||
	       (spend(paid, burst, 1000000000 / a_second) && intern_stack(record));
}

#endif /* PROFD_BPF_DESCRIPTION_BPF_H_ */
