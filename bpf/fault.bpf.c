// SPDX-License-Identifier: GPL-2.0-only
/* Who touches memory first: at the page faults of a sample of all pages. Which pages are in the sample
 * depends on their addresses alone, so that one that is given back and touched again is in it again.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "abi.h"
#include "loss.bpf.h"
#include "own_walk.bpf.h"
#include "target.bpf.h"

/* struct bpf_perf_event_data, without the names of its registers. */
struct fault_context {
	u64 regs[PROFD_PT_REGS_WORDS];
	u64 sample_period;
	u64 addr;
};

/* A page is in the sample when its hash lies below; so is one in fault_one_in. */
profd_u32 fault_threshold;
profd_u32 fault_one_in;
/* Of the hash; random, set before it runs. */
const volatile profd_u64 fault_seed = 0;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct profd_fault_cost);
} fault_cost SEC(".maps");

/* The stack of whoever touched an anonymous page, and a record for the daemon. */
static __always_inline void take_page(struct task_struct *task, struct profd_thread *thread,
				      struct pt_regs *user, u64 page)
{
	struct profd_thread *process = thread_of(task->group_leader);
	struct walker walker = { .task = task };
	struct profd_page_record *record;
	u64 stack = 0;
	u32 slot;

	walker.walk = take_walk(&slot);
	if (!walker.walk) {
		lose(PROFD_LOSS_FAULT_BUSY, 1);
		return;
	}
	/* Of files and devices there are other accounts. The kernel may be asked for one mapping only at
	 * a page fault: the rest is what was asked for at others.
	 */
	name_space(walker.walk, task);
	if (is_readable_memory(&walker, page << PAGE_SHIFT))
		stack = take_own_stack(walker.walk, task, user_pc(task, user), user->sp, user->bp,
				       false);
	drop_walk(slot);
	if (!stack)
		return;
	record = bpf_ringbuf_reserve(&events, sizeof(*record), 0);
	if (!record) {
		lose(PROFD_LOSS_RING_FULL_EVENT, 1);
		return;
	}
	record->type = PROFD_RECORD_PAGE;
	record->process_id = process ? process->thread_id : 0;
	record->thread_id = thread->thread_id;
	record->address = page << PAGE_SHIFT;
	record->stack = stack;
	record->size = (u64)fault_one_in << PAGE_SHIFT;
	record->pid = visible_pid(task->group_leader);
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

/* One run in so many is timed. */
#define TIMED 63

/* A page fault that was served, of whatever process. */
SEC("perf_event")
int on_fault(struct fault_context *ctx)
{
	u64 began = bpf_ktime_get_ns();
	struct task_struct *task = bpf_get_current_task_btf();
	struct profd_thread *thread = thread_of(task);
	struct profd_fault_cost *cost;
	u64 page = ctx->addr >> PAGE_SHIFT;
	u32 zero = 0;
	u32 hash;

	if (!thread || !thread->thread_id)
		return 0;
	cost = bpf_map_lookup_elem(&fault_cost, &zero);
	if (!cost)
		return 0;
	cost->faults++;
	hash = profd_page_hash(page, fault_seed);
	if (hash >= fault_threshold) {
		if (!(hash & TIMED)) {
			cost->timed++;
			cost->timed_ns += bpf_ktime_get_ns() - began;
		}
		return 0;
	}
	take_page(task, thread, (struct pt_regs *)bpf_task_pt_regs(task), page);
	cost->walks++;
	cost->walk_ns += bpf_ktime_get_ns() - began;
	return 0;
}

char LICENSE[] SEC("license") __weak = "GPL";
