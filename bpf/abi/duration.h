/* How long waits took: histograms of a thread, by reason. */
#ifndef PROFD_BPF_ABI_DURATION_H_
#define PROFD_BPF_ABI_DURATION_H_

#include "base.h"
#include "log2.h"

/* Bucket 0 is below 1,024 ns, the last one from 2^35 ns (34 s) on. In between an octave has two
 * buckets, divided at its middle.
 */
#define PROFD_DURATION_LEAST_BITS 10
#define PROFD_DURATION_OCTAVES 25
#define PROFD_DURATION_BUCKETS (2 * PROFD_DURATION_OCTAVES + 2)

/* Histograms of a thread: of the run queue, and of five reasons at a time. */
#define PROFD_DURATION_PLACES 6

/* Bucket of a duration, ns. */
static inline __attribute__((always_inline)) profd_u32 profd_duration_bucket(profd_u64 ns)
{
	profd_u32 log, bucket;

	if (ns < 1 << PROFD_DURATION_LEAST_BITS)
		return 0;
	log = profd_log2(ns);
	bucket = 1 + 2 * (log - PROFD_DURATION_LEAST_BITS) + (ns >> (log - 1) & 1);
	return bucket < PROFD_DURATION_BUCKETS ? bucket : PROFD_DURATION_BUCKETS - 1;
}

/* Waits for one reason that are over. Written only as the thread leaves its CPU. */
struct profd_durations {
	profd_u64 longest[2]; /* ns; by the parity of the drain in which they ended */
	profd_u32 drains[2]; /* and which drain that was */
	profd_u32 reason; /* enum profd_reason; RUNQUEUE: of the first place, else it is free */
	profd_u32 pad;
	profd_u32 counts[PROFD_DURATION_BUCKETS]; /* wrap around */
};

PROFD_STATIC_ASSERT(sizeof(struct profd_durations) == 240, "durations size");

#endif /* PROFD_BPF_ABI_DURATION_H_ */
