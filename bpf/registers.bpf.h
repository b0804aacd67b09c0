/* Registers at a probe, which are many to copy. */
#ifndef PROFD_BPF_REGISTERS_BPF_H_
#define PROFD_BPF_REGISTERS_BPF_H_

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "abi.h"

/* By its place in pt_regs; 0 for none. */
static __always_inline u64 register_at(struct pt_regs *regs, u32 word)
{
	u64 value = 0;

	barrier_var(word);
	if (word >= PROFD_PT_REGS_WORDS)
		return 0;
	bpf_probe_read_kernel(&value, sizeof(value), (void *)regs + word * sizeof(u64));
	return value;
}

#endif /* PROFD_BPF_REGISTERS_BPF_H_ */
