/* Walks of the current thread's stack, at a probe or a page fault. */
#ifndef PROFD_BPF_OWN_WALK_BPF_H_
#define PROFD_BPF_OWN_WALK_BPF_H_

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "abi.h"
#include "current_walk.bpf.h"
#include "loss.bpf.h"
#include "unwind.bpf.h"

/* Memory of these walks, PROFD_OWN_WALKS_PER_CPU per CPU; sized by the daemon. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct walk);
} own_scratch SEC(".maps") __weak;

#define OWN_WALK_WORDS (PROFD_MAX_OWN_WALKS / PROFD_OWN_WALKS_PER_CPU * PROFD_OWN_WALK_WORDS)

/* Which of them are in use: PROFD_OWN_WALK_WORDS a CPU. */
profd_u32 own_walking[OWN_WALK_WORDS] __weak
	__attribute__((aligned(PROFD_OWN_WALK_WORDS * sizeof(profd_u32))));

static __always_inline profd_u32 *own_walk_word(u32 slot)
{
	u32 word = slot / PROFD_OWN_WALKS_PER_CPU * PROFD_OWN_WALK_WORDS +
		   slot % PROFD_OWN_WALKS_PER_CPU;

	barrier_var(word); /* the mask comes last, where the verifier sees it */
	return &own_walking[word & (OWN_WALK_WORDS - 1)];
}

/* Takes memory for a walk, until drop_walk. There is more than one per CPU, because another thread
 * may take the CPU during a walk.
 */
static __always_inline struct walk *take_walk(u32 *slot)
{
	u32 first = bpf_get_smp_processor_id() * PROFD_OWN_WALKS_PER_CPU;
	struct walk *walk;

	*slot = first;
	if (first >= PROFD_MAX_OWN_WALKS - 1)
		return NULL;
	if (__sync_val_compare_and_swap(own_walk_word(first), 0, 1)) {
		*slot = first + 1;
		if (__sync_val_compare_and_swap(own_walk_word(first + 1), 0, 1))
			return NULL;
	}
	walk = bpf_map_lookup_elem(&own_scratch, slot);
	if (walk)
		walk->hurried = 0;
	return walk;
}

static __always_inline void drop_walk(u32 slot)
{
	barrier();
	*(volatile u32 *)own_walk_word(slot) = 0;
}

/* Walks the user's frames from these registers and sends the stack. Returns its hash. */
static __always_inline u64 walk_and_send(struct walker *walker, u64 pc, u64 sp, u64 fp,
					 bool at_entry)
{
	struct walk *walk = walker->walk;

	walk->hash = 0;
	walk->torn = 0;
	walk->map_busy = 0;
	walk->frames = 0;
	walk->frame_pointers = 0;
	walk_own(walker, pc, sp, fp, at_entry);
	return send_walk(walk, 0);
}

/* The stack of the current thread from these registers on, handed over. Returns its hash. `slot` is
 * that of take_walk. `at_entry`: pc is a function's first instruction.
 *
 * Neither static nor inlined: the verifier follows it once, not once for each state in which a
 * program may call it.
 */
__noinline u64 own_stack_in(u32 slot, u64 pc, u64 sp, u64 fp, u32 at_entry)
{
	struct walker walker = {.task = bpf_get_current_task_btf(),
				.walk = bpf_map_lookup_elem(&own_scratch, &slot)};

	return walker.walk ? walk_and_send(&walker, pc, sp, fp, at_entry) : 0;
}

/* The same with memory for this walk alone; 0 without it. */
static __always_inline u64 own_stack(u64 pc, u64 sp, u64 fp, u32 at_entry)
{
	u64 hash;
	u32 slot;

	if (!take_walk(&slot))
		return 0;
	hash = own_stack_in(slot, pc, sp, fp, at_entry);
	drop_walk(slot);
	return hash;
}

#endif /* PROFD_BPF_OWN_WALK_BPF_H_ */
