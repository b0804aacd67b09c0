/* What walks of the current thread's stack have in common. */
#ifndef PROFD_BPF_CURRENT_WALK_BPF_H_
#define PROFD_BPF_CURRENT_WALK_BPF_H_

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "abi.h"
#include "stacks.bpf.h"
#include "target.bpf.h"
#include "unwind.bpf.h"

/* Walks the frames in user mode, after the kernel's. Threads of the kernel have none. */
static __always_inline void walk_user_part(struct walker *walker)
{
	struct task_struct *task = walker->task;
	struct pt_regs *user = (struct pt_regs *)bpf_task_pt_regs(task);

	if (user && untrusted(task)->mm &&
	    !(task->flags & (PF_KTHREAD | PF_IO_WORKER | PF_USER_WORKER)))
		walk_own(walker, user_pc(task, user), user->sp, user->bp, false);
}

/* Sends a stack that was walked. Returns its hash. */
static __always_inline u64 send_walk(struct walk *walk, u32 kernel_frames)
{
	finish_stack(walk, kernel_frames);
	if (!intern_stack(&walk->record))
		empty_stack(&walk->record, PROFD_WALK_LOST);
	return walk->record.hash;
}

#endif /* PROFD_BPF_CURRENT_WALK_BPF_H_ */
