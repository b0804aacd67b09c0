// SPDX-License-Identifier: GPL-2.0-only
/* The tick: where every thread that does not run is waiting. Runs on the daemon's CPU time, from
 * outside; a thread found in the wait it was in at the last tick costs no walk.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "abi.h"
#include "aggregate.bpf.h"
#include "loss.bpf.h"
#include "reason.bpf.h"
#include "stacks.bpf.h"
#include "target.bpf.h"
#include "unwind.bpf.h"

/* Weight of a sample of this tick, ns: the interval in force. Set by the daemon before a tick. */
profd_u64 tick_weight_ns;

/* The instant this tick was meant for, ns. What began later, the tick may have caused itself. */
profd_u64 tick_instant_ns;

/* One tick runs at a time. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct walk);
} tick_scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct profd_tick_stats);
} tick_stats SEC(".maps");

/* Not a loop: 6.1 refuses one whose back edge clang lays out as a fall-through. */
static long hash_kernel_frame(u32 index, struct walk **walk)
{
	(*walk)->hash = mix((*walk)->hash, (*walk)->record.frames[index & (PROFD_MAX_FRAMES - 1)]);
	return 0;
}

/* Walks both stacks of a thread into walk->record. False when it ran meanwhile. */
static __always_inline bool walk_thread(struct task_struct *task, struct pt_regs *regs,
					struct walk *walk, struct profd_tick_stats *stats)
{
	struct profd_stack_record *record = &walk->record;
	struct walker walker = { .task = task, .walk = walk };
	long bytes = bpf_get_task_stack(task, record->frames, PROFD_MAX_KERNEL_FRAMES * 8, 0);
	u32 kernel_frames = bytes > 0 ? (u32)bytes / 8 : 0;

	walk->hash = 0;
	bpf_loop(kernel_frames, hash_kernel_frame, &walk, 0);
	walk->torn = 0;
	walk->window_size = 0;
	walk->frames = kernel_frames;
	walk->frame_pointers = 0;
	walk->result = PROFD_WALK_NO_USER;
	if (regs && !(task->flags & (PF_IO_WORKER | PF_USER_WORKER)))
		walk_from_outside(&walker, regs->ip, regs->sp, regs->bp);
	else
		walk->torn = !still_waits(&walker);
	record->kernel_frames = kernel_frames;
	record->user_frames = walk->frames - kernel_frames;
	record->walk = walk->result;
	record->frame_pointers = walk->frame_pointers;
	record->hash = mix(mix(walk->hash, kernel_frames), walk->result) | 1;
	stats->walks++;
	stats->user_frames += record->user_frames;
	stats->frame_pointer_frames += walk->frame_pointers;
	return !walk->torn;
}

/* A stack without frames that only says why there is none. */
static __always_inline void empty_stack(struct profd_stack_record *record, u8 result)
{
	record->kernel_frames = 0;
	record->user_frames = 0;
	record->frame_pointers = 0;
	record->walk = result;
	record->hash = mix(0, result) | 1;
}

SEC("iter.s/task")
int tick(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct profd_sample_key key = {};
	struct profd_tick_stats *stats;
	struct walk *scratch;
	struct profd_thread *thread;
	struct pt_regs *regs;
	u64 switches;
	u32 zero = 0;
	u32 state;

	if (!task)
		return 0;
	thread = thread_of(task);
	if (!thread || !thread->thread_id)
		return 0;
	scratch = bpf_map_lookup_elem(&tick_scratch, &zero);
	stats = bpf_map_lookup_elem(&tick_stats, &zero);
	if (!scratch || !stats)
		return 0;
	switches = switches_of(task);
	barrier();
	state = task->__state;
	stats->tasks++;
	if (task->on_cpu || task->exit_state || state & TASK_DEAD)
		return 0;
	/* Preempted by the daemon as it woke for this tick: at the instant it was running. */
	if (thread->ledger.phase == PROFD_PHASE_RUNQUEUE &&
	    (s64)(thread->ledger.since - tick_instant_ns) >= 0)
		return 0;
	stats->off_cpu++;
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	key.reason = blocked_reason(task, regs, state, &key.sysno, &key.arg0);
	if (state == TASK_RUNNING || state & (TASK_WAKING | TASK_NEW))
		key.reason = PROFD_REASON_RUNQUEUE;
	key.thread_id = thread->thread_id;
	if (thread->tick_valid && thread->tick_switches == switches) {
		stats->repeats++;
		key.stack = thread->tick_stack;
		count_sample(&key, tick_weight_ns);
		return 0;
	}
	thread->tick_valid = 0;
	scratch->switches = switches;
	if (!walk_thread(task, regs, scratch, stats)) {
		lose(PROFD_LOSS_TORN_WALK, 1);
		stats->torn++;
		empty_stack(&scratch->record, PROFD_WALK_TORN);
	} else if (scratch->record.walk != PROFD_WALK_RULES_PENDING &&
		   scratch->record.walk != PROFD_WALK_MAP_BUSY) {
		/* A walk that may succeed next time is not remembered. */
		thread->tick_valid = 1;
	}
	if (!intern_stack(&scratch->record)) {
		thread->tick_valid = 0;
		empty_stack(&scratch->record, PROFD_WALK_LOST);
	}
	thread->tick_switches = switches;
	thread->tick_stack = scratch->record.hash;
	key.stack = scratch->record.hash;
	count_sample(&key, tick_weight_ns);
	return 0;
}

char LICENSE[] SEC("license") __weak = "GPL";
