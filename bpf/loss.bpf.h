/* Named counters of losses. */
#ifndef PROFD_BPF_LOSS_BPF_H_
#define PROFD_BPF_LOSS_BPF_H_

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "abi.h"

/* One counter for each enum profd_loss. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, PROFD_LOSS_COUNT);
	__type(key, u32);
	__type(value, u64);
} losses SEC(".maps") __weak;

static __always_inline void lose(u32 loss, u64 amount)
{
	u64 *counter = bpf_map_lookup_elem(&losses, &loss);

	if (counter)
		*counter += amount;
}

#endif /* PROFD_BPF_LOSS_BPF_H_ */
