/* Reads of kernel memory that may be gone meanwhile: what cannot be read is 0. */
#ifndef PROFD_BPF_FIELD_BPF_H_
#define PROFD_BPF_FIELD_BPF_H_

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "untrusted.bpf.h"

/* A field of the struct at an address: a load where the kernel has casts, else a call, which takes
 * ten times as long.
 */
#ifdef PROFD_NO_KERNEL_FUNCTIONS
#define FIELD(type, address, field)                                                                \
	({                                                                                         \
		struct type *at_address = (void *)(address);                                       \
		BPF_CORE_READ(at_address, field);                                                  \
	})
#else
#define FIELD(type, address, field)                                                                \
	(((struct type *)bpf_rdonly_cast((void *)(address), bpf_core_type_id_kernel(struct type))) \
		 ->field)
#endif

#endif /* PROFD_BPF_FIELD_BPF_H_ */
