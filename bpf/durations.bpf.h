/* Histograms of the durations of waits, in the thread's account. */
#ifndef PROFD_BPF_DURATIONS_BPF_H_
#define PROFD_BPF_DURATIONS_BPF_H_

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "abi.h"
#include "loss.bpf.h"
#include "target.bpf.h"

/* The place is free, or was not used since before the last drain, which has read all of it. */
static __always_inline bool may_take(const struct profd_durations *place)
{
	u32 drain = duration_drain;

	return !place->reason || (drain - place->drains[0] >= 2 && drain - place->drains[1] >= 2);
}

/* Gives a reason a place. The drain cannot read meanwhile: see read_durations. */
static __noinline int take_place(struct profd_thread *thread, u32 reason)
{
	struct profd_durations *place;
	u32 number = 0;

	if (!thread)
		return 0;
#pragma unroll
	for (u32 i = PROFD_DURATION_PLACES - 1; i; i--) {
		if (may_take(&thread->durations[i]))
			number = i;
	}
	if (!number || number >= PROFD_DURATION_PLACES)
		return 0;
	place = &thread->durations[number];
	if (place->reason)
		thread->duration_places[place->reason % PROFD_DURATION_REASONS] = 0;
	__builtin_memset(place, 0, sizeof(*place));
	place->reason = reason;
	thread->duration_places[reason % PROFD_DURATION_REASONS] = number;
	return number;
}

/* Neither static nor inlined: the verifier would follow what is done with each bucket. */
__noinline u32 bucket_of(s64 ns)
{
	return profd_duration_bucket(ns);
}

static __always_inline void add_duration(struct profd_thread *thread, u32 number, s64 ns)
{
	struct profd_durations *place;
	u32 drain = duration_drain;
	u32 parity = drain & 1;
	u32 bucket;

	if (number >= PROFD_DURATION_PLACES)
		return;
	place = &thread->durations[number];
	if (ns < 0)
		ns = 0;
	if (place->drains[parity] != drain) {
		place->drains[parity] = drain;
		place->longest[parity] = ns;
	} else if ((u64)ns > place->longest[parity]) {
		place->longest[parity] = ns;
	}
	bucket = bucket_of(ns);
	barrier_var(bucket);
	if (bucket < PROFD_DURATION_BUCKETS)
		place->counts[bucket]++;
}

/* A wait for a CPU that is over. */
static __always_inline void add_queued(struct profd_thread *thread, u64 ns)
{
	add_duration(thread, 0, ns);
}

/* Another wait that is over. */
static __always_inline void add_wait(struct profd_thread *thread, u32 reason, s64 ns)
{
	u32 number = thread->duration_places[reason % PROFD_DURATION_REASONS];

	if (!number)
		number = take_place(thread, reason);
	if (number)
		add_duration(thread, number, ns);
	else
		lose(PROFD_LOSS_DURATION, 1);
}

#endif /* PROFD_BPF_DURATIONS_BPF_H_ */
