/* Walks the stacks of a thread that waits, from outside. */
#ifndef PROFD_BPF_THREAD_WALK_BPF_H_
#define PROFD_BPF_THREAD_WALK_BPF_H_

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "abi.h"
#include "kernel_frames.bpf.h"
#include "reason.bpf.h"
#include "target.bpf.h"
#include "unwind.bpf.h"

/* A thread's sample in the making; lives on the stack. */
struct sampling {
	struct task_struct *task;
	struct profd_thread *thread;
	struct walk *walk;
	struct profd_tick_stats *stats;
	struct profd_visit *found;
	u64 switches;
};

/* Reads the kernel stack and returns the number of frames. When the kernel comes to the end of a
 * stack it searches all of its code for the address that follows, which is the program's: a sixth
 * of a tick. So it is asked for as many frames as there were the last time. Whether that is all is
 * seen by the outermost frame: x86 keeps its address right below the program's registers.
 */
static __always_inline u32 read_kernel_stack(struct sampling *sampling, struct pt_regs *regs)
{
	struct profd_thread *thread = sampling->thread;
	u64 *frames = sampling->walk->record.frames;
	u32 frames_before = thread->tick_frames;
	u64 outermost = 0;
	long bytes;
	u32 count;

	if (!regs || bpf_probe_read_kernel(&outermost, sizeof(outermost), (u64 *)regs - 1))
		frames_before = 0;
	if (frames_before && frames_before <= PROFD_MAX_KERNEL_FRAMES) {
		bytes = bpf_get_task_stack(sampling->task, frames, frames_before * 8, 0);
		count = bytes > 0 ? (u32)bytes / 8 : 0;
		if (count && (count < frames_before ||
			      frames[(count - 1) & (PROFD_MAX_KERNEL_FRAMES - 1)] == outermost))
			return count;
	}
	bytes = bpf_get_task_stack(sampling->task, frames, PROFD_MAX_KERNEL_FRAMES * 8, 0);
	count = bytes > 0 ? (u32)bytes / 8 : 0;
	thread->tick_frames = 0;
	if (count && outermost && frames[(count - 1) & (PROFD_MAX_KERNEL_FRAMES - 1)] == outermost)
		thread->tick_frames = count;
	return count;
}

/* Walks both stacks of a thread into walk->record. False when it ran meanwhile. */
static __always_inline bool walk_thread(struct sampling *sampling)
{
	struct task_struct *task = sampling->task;
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	struct walk *walk = sampling->walk;
	struct profd_tick_stats *stats = sampling->stats;
	struct profd_stack_record *record = &walk->record;
	struct walker walker = {.task = task, .walk = walk};
	u32 kernel_frames = read_kernel_stack(sampling, regs);

	/* A thread that has never run is still in the call that made it, and its stack holds no
	 * return address yet. A new process has a copy of its parent's stack.
	 */
	walk->never_ran = !sampling->switches && task->pid != task->tgid;
	begin_after_kernel(walk, kernel_frames);
	if (regs && !(task->flags & (PF_IO_WORKER | PF_USER_WORKER)))
		walk_from_outside(&walker, user_pc(task, regs), regs->sp, regs->bp);
	else
		walk->torn = !still_waits(&walker);
	if (walk->never_ran && walk->frames > kernel_frames)
		walk->result = PROFD_WALK_COMPLETE;
	if (walk->map_busy && walk->result != PROFD_WALK_COMPLETE)
		walk->result = PROFD_WALK_MAP_BUSY;
	finish_stack(walk, kernel_frames);
	stats->walks++;
	stats->user_frames += record->user_frames;
	stats->frame_pointer_frames += walk->frame_pointers;
	return !walk->torn;
}

/* Says in which wait the thread is. False when it runs. Not inlined: the verifier would follow what
 * comes after it for each way through it.
 */
static __noinline bool look_at(struct sampling *sampling)
{
	struct task_struct *task = sampling->task;
	struct profd_visit *found = sampling->found;
	u64 arg0 = 0;
	s32 sysno = -1;
	u32 state;

	sampling->switches = switches_of(task);
	barrier();
	state = task->__state;
	if (task->on_cpu || task->exit_state || state & TASK_DEAD)
		return false;
	found->reason = blocked_reason(task, (struct pt_regs *)bpf_task_pt_regs(task), state,
				       &sysno, &arg0);
	if (state == TASK_RUNNING || state & (TASK_WAKING | TASK_NEW)) {
		found->reason = PROFD_REASON_RUNQUEUE;
		/* It waits for nothing but a CPU. */
		arg0 = 0;
	}
	found->sysno = sysno;
	found->arg0 = arg0;
	return true;
}

/* Whether the ledger has the thread on a run queue, and not before this instant, ns: whoever came
 * then may have taken its CPU.
 */
static __always_inline bool is_queued_since(struct profd_thread *thread, u64 instant)
{
	return thread->ledger.phase == PROFD_PHASE_RUNQUEUE &&
	       (s64)(thread->ledger.since + clock_distance - instant) >= 0;
}

/* Walks. A thread that ran meanwhile, and waits again, is walked once more: the code is warm now,
 * so waits not much longer than a walk are not missed all the time. 1 ends it.
 */
static __always_inline long attempt_walk(u32 attempt, struct sampling *sampling)
{
	struct walk *walk = sampling->walk;

	if (attempt != 0 && !look_at(sampling))
		return 1;
	walk->switches = sampling->switches;
	if (walk_thread(sampling))
		return 1;
	sampling->stats->torn++;
	return 0;
}

#endif /* PROFD_BPF_THREAD_WALK_BPF_H_ */
