/* Pointers that the verifier is not to trust. */
#ifndef PROFD_BPF_UNTRUSTED_BPF_H_
#define PROFD_BPF_UNTRUSTED_BPF_H_

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#ifndef PROFD_NO_KERNEL_FUNCTIONS
extern void *bpf_rdonly_cast(const void *object, u32 type) __ksym;
#endif

/* The same task, to follow its pointers. When one is read from a task that the verifier trusts, it
 * searches all types of the kernel for some that would make the pointer trusted, too: a millisecond
 * for each such read, the most part of loading a program. What comes of this one it does not trust.
 */
static __always_inline struct task_struct *untrusted(struct task_struct *task)
{
#ifdef PROFD_NO_KERNEL_FUNCTIONS
	return task;
#else
	return bpf_rdonly_cast(task, bpf_core_type_id_kernel(struct task_struct));
#endif
}

#endif /* PROFD_BPF_UNTRUSTED_BPF_H_ */
