/* Counters of samples. A counter belongs to one thread, which is in one place at a time: no two
 * programs add to it.
 */
#ifndef PROFD_BPF_AGGREGATE_BPF_H_
#define PROFD_BPF_AGGREGATE_BPF_H_

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "abi.h"

/* Its memory grows with what is in it, so that a host with 20,000 threads fits and others pay
 * nothing. */
struct counter_table {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct profd_sample_key);
	__type(value, struct profd_sample_value);
};

/* Adds `count` events that weigh `weight` together. False when the table is full. */
static __always_inline bool count_many_in(void *table, struct profd_sample_key *key, u64 weight,
					  u64 count)
{
	struct profd_sample_value fresh = {.weight = weight, .count = count};
	struct profd_sample_value *value = bpf_map_lookup_elem(table, key);

	if (!value) {
		if (!bpf_map_update_elem(table, key, &fresh, BPF_NOEXIST))
			return true;
		value = bpf_map_lookup_elem(table, key);
	}
	if (!value)
		return false;
	value->weight += weight;
	value->count += count;
	return true;
}

static __always_inline bool count_in(void *table, struct profd_sample_key *key, u64 weight)
{
	return count_many_in(table, key, weight, 1);
}

#endif /* PROFD_BPF_AGGREGATE_BPF_H_ */
