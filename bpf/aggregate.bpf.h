/* Counters of samples, in two epochs: the daemon changes which map is live, then drains the other.
 * A counter belongs to one thread, which is in one place at a time: no two programs add to it.
 */
#ifndef PROFD_BPF_AGGREGATE_BPF_H_
#define PROFD_BPF_AGGREGATE_BPF_H_

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "abi.h"
#include "loss.bpf.h"

/* Its memory grows with what is in it, so that a host with 20,000 threads fits and others pay
 * nothing. */
struct counter_table {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct profd_sample_key);
	__type(value, struct profd_sample_value);
};

/* The two epochs. */
struct counter_table counters_even SEC(".maps") __weak;
struct counter_table counters_odd SEC(".maps") __weak;

/* The epoch that is counted in, 0 or 1. Only the tick counts, which runs when the daemon calls it:
 * the daemon changes the epoch while nobody counts, and need not wait for anybody.
 */
profd_u32 live_epoch __weak;

/* False when the table is full. */
static __always_inline bool count_in(void *table, struct profd_sample_key *key, u64 weight)
{
	struct profd_sample_value fresh = {.weight = weight, .count = 1};
	struct profd_sample_value *value = bpf_map_lookup_elem(table, key);

	if (!value) {
		if (!bpf_map_update_elem(table, key, &fresh, BPF_NOEXIST))
			return true;
		value = bpf_map_lookup_elem(table, key);
	}
	if (!value)
		return false;
	value->weight += weight;
	value->count++;
	return true;
}

static __always_inline void count_sample(struct profd_sample_key *key, u64 weight_ns)
{
	if (live_epoch ? count_in(&counters_odd, key, weight_ns)
		       : count_in(&counters_even, key, weight_ns))
		return;
	lose(PROFD_LOSS_COUNTERS_FULL, 1);
	lose(PROFD_LOSS_COUNTERS_FULL_NS, weight_ns);
}

#endif /* PROFD_BPF_AGGREGATE_BPF_H_ */
