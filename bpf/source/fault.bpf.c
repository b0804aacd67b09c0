// SPDX-License-Identifier: GPL-2.0-only
/* Who touches memory first: at the page faults of a sample of all pages. Which pages are in the
 * sample depends on their addresses alone, so that one that is given back and touched again is in
 * it again.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "abi.h"
#include "loss.bpf.h"
#include "own_walk.bpf.h"
#include "target.bpf.h"

/* User addresses end here. */
#define END_OF_USER (1ULL << 47)
/* A stack grows by accesses that lie about the stack pointer. */
#define BELOW_STACK 256
#define ABOVE_STACK (1 << 16)

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

/* The access makes the first thread's stack larger: there is no mapping yet. */
static __always_inline bool grows_stack(struct pt_regs *user, u64 address)
{
	return address - (user->sp - BELOW_STACK) < BELOW_STACK + ABOVE_STACK;
}

/* Notes in the walk of this slot whether the page that the current thread touches is anonymous, for
 * sure. Neither static nor inlined, so that the verifier follows the walk once, whatever was found
 * here.
 */
__noinline int judge_page(u32 slot, u64 address)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct walker walker = {.task = task, .walk = bpf_map_lookup_elem(&own_scratch, &slot)};

	if (!walker.walk)
		return 0;
	name_space(walker.walk, task);
	walker.walk->anonymous = is_readable_memory(&walker, address) ||
				 grows_stack((struct pt_regs *)bpf_task_pt_regs(task), address);
	return 0;
}

/* The stack of the current thread, which touches a page, handed over. Returns its hash; 0 if the
 * page is not anonymous, or without memory for the walk. Neither static nor inlined, like
 * own_stack_in.
 */
__noinline u64 stack_at_fault(u64 address)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *user = (struct pt_regs *)bpf_task_pt_regs(task);
	struct walker walker = {.task = task};
	struct profd_fault_cost *cost;
	u64 stack = 0;
	u32 zero = 0;
	u32 slot;

	walker.walk = take_walk(&slot);
	if (!walker.walk) {
		lose(PROFD_LOSS_FAULT_BUSY, 1);
		return 0;
	}
	/* Of files and devices there are other accounts. The kernel may be asked for one mapping
	 * only at a page fault, and says that the map is busy from then on: the rest is what was
	 * asked for at others. Where the target has locked its map nobody can tell: the page is
	 * told as unsure, and the daemon finds out.
	 */
	walker.walk->hurried = 1;
	walker.walk->map_busy = 0;
	walker.walk->anonymous = 0;
	judge_page(slot, address);
	if (walker.walk->anonymous || walker.walk->map_busy)
		stack = walk_and_send(&walker, user_pc(task, user), user->sp, user->bp, false);
	cost = bpf_map_lookup_elem(&fault_cost, &zero);
	if (stack && !walker.walk->anonymous && cost)
		cost->unsure++;
	drop_walk(slot);
	return stack;
}

/* The stack of whoever touches an anonymous page, and a record for the daemon. */
static __always_inline void take_page(struct task_struct *task, struct profd_thread *thread,
				      u64 address, const struct profd_fault_cost *cost)
{
	struct profd_thread *process = thread_of(task->group_leader);
	struct profd_page_record *record;
	u64 unsure = cost->unsure;
	u64 stack = stack_at_fault(address);

	if (!stack || !make_known(thread))
		return;
	record = bpf_ringbuf_reserve(&events, sizeof(*record), 0);
	if (!record) {
		lose(PROFD_LOSS_RING_FULL_EVENT, 1);
		return;
	}
	record->type = PROFD_RECORD_PAGE;
	record->process_id = process ? process->thread_id : 0;
	record->thread_id = thread->thread_id;
	record->address = address & ~((1ULL << PAGE_SHIFT) - 1);
	record->stack = stack;
	record->size = (u64)fault_one_in << PAGE_SHIFT;
	record->unsure = cost->unsure != unsure;
	record->pad = 0;
	record->pid = visible_pid(untrusted(task)->group_leader);
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

/* One run in so many is timed. */
#define TIMED 63

/* Before the fault is served. Interrupts are off. */
static __always_inline void handle_fault(u64 address)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct profd_thread *thread = thread_of(task);
	struct profd_fault_cost *cost;
	u32 zero = 0;
	u32 hash;
	u64 began;

	if (!thread || !thread->thread_id || address >= END_OF_USER)
		return;
	/* Not before: others get by without a look at the clock. */
	began = bpf_ktime_get_ns();
	cost = bpf_map_lookup_elem(&fault_cost, &zero);
	if (!cost)
		return;
	cost->faults++;
	hash = profd_page_hash(address >> PAGE_SHIFT, fault_seed);
	if (hash >= fault_threshold) {
		if (!(hash & TIMED)) {
			cost->timed++;
			cost->timed_ns += bpf_ktime_get_ns() - began;
		}
		return;
	}
	take_page(task, thread, address, cost);
	cost->walks++;
	cost->walk_ns += bpf_ktime_get_ns() - began;
}

/* Page faults of all processes, also in system calls that touch a process's memory. Not where the
 * kernel, or a program like ours, only tries to read: nothing is touched then. One program for the
 * tracepoints page_fault_user and page_fault_kernel, because the verifier needs long for it.
 */
SEC("raw_tp")
int BPF_PROG(on_fault, unsigned long address)
{
	if (!bpf_get_current_task_btf()->pagefault_disabled)
		handle_fault(address);
	return 0;
}
