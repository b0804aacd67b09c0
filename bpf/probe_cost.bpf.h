/* Cost of probes to the threads that hit them. */
#ifndef PROFD_BPF_PROBE_COST_BPF_H_
#define PROFD_BPF_PROBE_COST_BPF_H_

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "abi.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct profd_probe_cost);
} heap_cost SEC(".maps") __weak;

/* Records a run that started at `began`: on a single-stepped instruction or not, with a stack or
 * without.
 */
static __always_inline void add_probe_cost(void *table, u64 began, u32 stepped, bool walked)
{
	u32 zero = 0;
	struct profd_probe_cost *cost = bpf_map_lookup_elem(table, &zero);
	u64 took;

	if (!cost)
		return;
	took = bpf_ktime_get_ns() - began;
	cost->events++;
	cost->stepped += stepped;
	if (walked) {
		cost->walks++;
		cost->walk_ns += took;
	} else {
		cost->ns += took;
	}
}

/* Records a run while probes were being attached or detached, which counts nothing. */
static __always_inline void add_closed_run(void)
{
	u32 zero = 0;
	struct profd_probe_cost *cost = bpf_map_lookup_elem(&heap_cost, &zero);

	if (cost)
		cost->closed++;
}

static __always_inline void add_heap_cost(u64 began, u32 stepped, bool walked)
{
	add_probe_cost(&heap_cost, began, stepped, walked);
}

#endif /* PROFD_BPF_PROBE_COST_BPF_H_ */
