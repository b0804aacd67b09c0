// SPDX-License-Identifier: GPL-2.0-only
/* Every executable mapping of a target, so that its rules are there before its first wait is seen. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "abi.h"
#include "modules.bpf.h"
#include "target.bpf.h"

SEC("iter/task_vma")
int mappings(struct bpf_iter__task_vma *ctx)
{
	struct vm_area_struct *vma = ctx->vma;
	struct task_struct *task = ctx->task;
	struct mapping mapping = {};
	struct profd_thread *thread;

	if (!task || !vma || task != task->group_leader || !(vma->vm_flags & VM_EXEC))
		return 0;
	thread = thread_of(task);
	if (!thread || !thread->target_id)
		return 0;
	describe_mapping(vma, &mapping);
	if (mapping.key.ino)
		module_of(task, &mapping);
	return 0;
}

char LICENSE[] SEC("license") __weak = "GPL";
