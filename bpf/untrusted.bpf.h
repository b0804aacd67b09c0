/* Pointers that the verifier should not trust. */
#ifndef PROFD_BPF_UNTRUSTED_BPF_H_
#define PROFD_BPF_UNTRUSTED_BPF_H_

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#ifndef PROFD_NO_KERNEL_FUNCTIONS
extern void *bpf_rdonly_cast(const void *object, u32 type) __ksym;
#endif

/* The same object, but untrusted, for following its pointers. For each pointer read from a trusted
 * one, the verifier searches all kernel types for one that would make the pointer trusted too. That
 * takes a millisecond per read and was most of the time to load a program.
 */
#ifdef PROFD_NO_KERNEL_FUNCTIONS
#define untrusted_as(type, object) (object)
#else
#define untrusted_as(type, object) ((type *)bpf_rdonly_cast(object, bpf_core_type_id_kernel(type)))
#endif

static __always_inline struct task_struct *untrusted(struct task_struct *task)
{
	return untrusted_as(struct task_struct, task);
}

#endif /* PROFD_BPF_UNTRUSTED_BPF_H_ */
