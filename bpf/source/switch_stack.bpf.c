// SPDX-License-Identifier: GPL-2.0-only
/* Where threads leave their CPUs: the stack of one context switch in many. The program of the
 * ledger goes on here, in the scheduler, interrupts off.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "abi.h"
#include "aggregate.bpf.h"
#include "loss.bpf.h"
#include "scheduler_walk.bpf.h"
#include "target.bpf.h"
#include "unwind.bpf.h"

/* A stack begins with some frames of tracing, then the scheduler's. More are none of these. */
#define MAX_SCHEDULER_FRAMES 12

/* The scheduler's own functions. Set by the daemon once programs are loaded; 0: not known. */
profd_u64 scheduler_begin SEC(".data.code") = 0;
profd_u64 scheduler_end SEC(".data.code") = 0;

/* Changed by the daemon with each drain. */
profd_u32 switch_stack_round;

/* What a CPU did in the current round. */
struct switch_round {
	u32 round;
	u32 taken;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct switch_round);
} switch_rounds SEC(".maps");

/* The CPUs whose program counts. */
profd_u32 switch_stack_counting[PROFD_MAX_CPUS];

/* Switches by thread, stack, reason and weight, in two epochs. */
struct counter_table switch_stack_even SEC(".maps");
struct counter_table switch_stack_odd SEC(".maps");

/* The live epoch. After changing it, the daemon waits for programs that count. */
profd_u32 switch_stack_epoch;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct profd_switch_stack_cost);
} switch_stack_cost SEC(".maps");

/* A search for where the scheduler's frames end; lives on the stack. */
struct scheduler_search {
	struct walk *walk;
	u32 end;
};

static long look_for_scheduler(u32 index, struct scheduler_search *search)
{
	u64 frame = search->walk->record.frames[index & (PROFD_MAX_FRAMES - 1)];

	if (frame > scheduler_begin && frame <= scheduler_end)
		search->end = index + 1;
	else if (search->end)
		return 1;
	return 0;
}

/* How many of `count` kernel frames are of tracing and of the scheduler: all up to the last of the
 * first run of the scheduler's. A tick's stacks do not have them, either.
 */
static __always_inline u32 frames_of_scheduler(struct walk *walk, u32 count)
{
	struct scheduler_search search = {.walk = walk};

	bpf_loop(count, look_for_scheduler, &search, 0);
	return search.end;
}

/* Walks both stacks of the current thread and sends them. Returns their hash. */
static __always_inline u64 take_switch_stack(void *ctx, struct walk *walk, u32 cpu)
{
	u64 *frames = walk->record.frames;
	u32 skip = 0, count;
	long bytes;

	if (scheduler_end) {
		bytes = bpf_get_stack(ctx, frames, MAX_SCHEDULER_FRAMES * 8, 0);
		skip = frames_of_scheduler(walk, bytes > 0 ? (u32)bytes / 8 : 0);
	}
	bytes = bpf_get_stack(ctx, frames, PROFD_MAX_KERNEL_FRAMES * 8,
			      skip & BPF_F_SKIP_FIELD_MASK);
	count = bytes > 0 ? (u32)bytes / 8 : 0;
	begin_in_scheduler(walk, count);
	walk_in_scheduler(cpu);
	return send_walk(walk, count);
}

/* By how much fewer stacks than one in 2 to the power switch_stack_shift are taken: the more there
 * were in this round, the fewer. What is taken depends on the past alone, so each switch is counted
 * with the weight that it was drawn with.
 */
static __always_inline u32 further_shift(struct switch_round *cpu)
{
	u32 shift;

	if (cpu->round != switch_stack_round) {
		cpu->round = switch_stack_round;
		cpu->taken = 0;
	}
	shift = 2 * (cpu->taken / PROFD_SWITCH_STACKS);
	return shift < PROFD_SWITCH_STACK_SHIFT ? shift : PROFD_SWITCH_STACK_SHIFT;
}

static __always_inline bool count_switch(void *ctx, struct profd_thread *thread, u32 cpu,
					 u64 weight)
{
	struct profd_sample_key key = {.sysno = -1, .kind = PROFD_KIND_SWITCH, .arg0 = weight};
	struct walk *walk = bpf_map_lookup_elem(&scheduler_scratch, &cpu);

	if (!walk)
		return false;
	key.thread_id = thread->thread_id;
	key.reason = thread->ledger.reason;
	key.stack = take_switch_stack(ctx, walk, cpu);
	return switch_stack_epoch ? count_in(&switch_stack_odd, &key, weight)
				  : count_in(&switch_stack_even, &key, weight);
}

/* One switch that the ledger has entered, in 2 to the power switch_stack_shift. */
SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch_stack, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct profd_switch_stack_cost *cost;
	struct profd_thread *thread;
	struct switch_round *round;
	u32 zero = 0, further, *counting;
	u64 began, weight;

	thread = bpf_task_storage_get(&threads, prev, 0, 0);
	round = bpf_map_lookup_elem(&switch_rounds, &zero);
	cost = bpf_map_lookup_elem(&switch_stack_cost, &zero);
	/* An exit is no wait. A thread that the daemon does not know yet may be folded. */
	if (!thread || !round || !cost || prev_state & TASK_DEAD || !is_known(thread))
		return 0;
	further = further_shift(round);
	if (bpf_get_prandom_u32() & ((1U << further) - 1))
		return 0;
	began = bpf_ktime_get_ns();
	weight = 1ULL << (switch_stack_shift + further);
	counting = &switch_stack_counting[cpu & (PROFD_MAX_CPUS - 1)];
	/* A full barrier: the daemon sees it before the epoch is read. */
	__sync_val_compare_and_swap(counting, 0, 1);
	if (!count_switch(ctx, thread, cpu, weight))
		lose(PROFD_LOSS_SWITCH, weight);
	barrier();
	*(volatile u32 *)counting = 0;
	round->taken++;
	cost->switches += weight;
	cost->samples++;
	cost->ns += bpf_ktime_get_ns() - began;
	return 0;
}
