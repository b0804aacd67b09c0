// SPDX-License-Identifier: GPL-2.0-only
/* Every executable mapping of a target, so that its rules are there before its first wait is seen,
 * and it is known who runs which allocator.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "abi.h"
#include "modules.bpf.h"
#include "target.bpf.h"

/* Tells the daemon that a process maps a module whose processes it asked for. */
static __always_inline void announce_watched(struct task_struct *task, u32 watch)
{
	struct profd_watched_record *record = bpf_ringbuf_reserve(&events, sizeof(*record), 0);

	if (!record) {
		lose(PROFD_LOSS_RING_FULL_EVENT, 1);
		return;
	}
	record->type = PROFD_RECORD_WATCHED;
	record->pid = visible_pid(task);
	record->watch = watch;
	record->pad = 0;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

SEC("iter/task_vma")
int find_modules(struct bpf_iter__task_vma *ctx)
{
	struct vm_area_struct *vma = ctx->vma;
	struct task_struct *task = ctx->task;
	struct mapping mapping = {};
	struct profd_thread *thread;
	struct known_module module = {};

	if (!task || !vma || task != untrusted(task)->group_leader || !(vma->vm_flags & VM_EXEC))
		return 0;
	thread = thread_of(task);
	if (!thread || !thread->target_id)
		return 0;
	describe_mapping(vma, &mapping);
	if (!mapping.key.ino)
		return 0;
	if (find_module(task, &mapping, &module) && module.watch)
		announce_watched(task, module.watch);
	return 0;
}

/* Every target process, and whether its memory map is locked. Takes no lock. */
SEC("iter/task")
int mapping_processes(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct profd_mapping_process process = {};
	struct profd_thread *thread;
	struct mm_struct *mm;

	if (!task || task != untrusted(task)->group_leader || task->flags & PF_KTHREAD)
		return 0;
	thread = thread_of(task);
	if (!thread || !thread->target_id)
		return 0;
	mm = untrusted(task)->mm;
	process.locked = mm && is_map_locked(mm);
	process.pid = visible_pid(task);
	bpf_seq_write(ctx->meta->seq, &process, sizeof(process));
	return 0;
}
