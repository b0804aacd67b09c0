// SPDX-License-Identifier: GPL-2.0-only
/* glibc's malloc in bursts: its functions are called far too often to stop at every call, so the
 * probes stand for some milliseconds at a time. In a burst every call is counted, and stacks are
 * taken of a sample of them.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "abi.h"
#include "aggregate.bpf.h"
#include "loss.bpf.h"
#include "own_walk.bpf.h"
#include "target.bpf.h"

/* The burst: what runs into a probe before or after it is not counted. Set by the daemon. */
profd_u64 malloc_begin_ns;
profd_u64 malloc_length_ns;

/* Of a thread that has not been met in this burst. */
struct profd_malloc_thread malloc_nothing;

/* What a burst finds by thread and stack; emptied after it, when no probe stands. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct profd_sample_key);
	__type(value, struct profd_sample_value);
} malloc_counts SEC(".maps");

/* And by thread (thread id). */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, struct profd_malloc_thread);
} malloc_threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct profd_malloc_cost);
} malloc_cost SEC(".maps");

/* No request is as large. */
#define MAX_REQUEST (1ULL << 47)
/* Up to this alignment malloc itself is called, which has a probe of its own. */
#define MALLOC_ALIGNMENT 16
#define MIN_CHUNK 32
/* Flags in the size of a chunk (malloc/malloc.c). */
#define IS_MMAPPED 2
#define CHUNK_FLAGS 7

/* The stacks of so many calls of a thread are taken in each burst; of n times as many one in n, up
 * to MAX_STEP.
 */
#define ALL_WALKED 64
#define MAX_STEP 32
#define MAX_THRESHOLD (1ULL << 31)

/* What a call does, bytes that can be used. */
struct malloc_call {
	u64 allocated;
	u64 freed;
};

/* Of the chunk that is made for a request. */
static __always_inline u64 usable_of(u64 request)
{
	u64 chunk = (request + 8 + 15) & ~15ULL;

	return (chunk < MIN_CHUNK ? MIN_CHUNK : chunk) - 8;
}

/* Of the chunk at an address, as its header says; 0 when that is no chunk. */
static __always_inline u64 held_at(u64 address)
{
	u64 size, chunk;

	if (bpf_probe_read_user(&size, sizeof(size), (void *)(address - 8)))
		return 0;
	chunk = size & ~(u64)CHUNK_FLAGS;
	if (chunk < MIN_CHUNK || chunk >= MAX_REQUEST)
		return 0;
	return chunk - (size & IS_MMAPPED ? 16 : 8);
}

/* What the function is about to do. False when it is nothing, or another function with a probe will
 * be called for it: malloc for a realloc of NULL, free for one to nothing.
 */
static __always_inline bool read_call(struct pt_regs *regs, u32 place, struct malloc_call *call)
{
	u64 first = regs->di, second = regs->si, third = regs->dx;
	u64 request;

	/* Read before they are needed: no program may compute with `regs`. */
	barrier_var(first);
	barrier_var(second);
	barrier_var(third);
	request = first;
	call->allocated = 0;
	call->freed = 0;
	if (place == PROFD_MALLOC_FREE || place == PROFD_MALLOC_REALLOC) {
		if (!first || (place == PROFD_MALLOC_REALLOC && !second))
			return false;
		call->freed = held_at(first);
		if (place == PROFD_MALLOC_FREE)
			return call->freed != 0;
		request = second;
	} else if (place == PROFD_MALLOC_CALLOC) {
		if (second && first > MAX_REQUEST / second)
			return false;
		request = first * second;
	} else if (place == PROFD_MALLOC_MEMALIGN) {
		if (first <= MALLOC_ALIGNMENT)
			return false;
		request = second;
	} else if (place == PROFD_MALLOC_POSIX_MEMALIGN) {
		if (second <= MALLOC_ALIGNMENT)
			return false;
		request = third;
	} else if (place == PROFD_MALLOC_PVALLOC) {
		request = (first + (1 << PAGE_SHIFT) - 1) & ~((1ULL << PAGE_SHIFT) - 1);
	}
	if (request >= MAX_REQUEST)
		return false;
	call->allocated = usable_of(request);
	return true;
}

/* A call of so many bytes or more has its stack taken, a smaller one with a probability in
 * proportion to its size. From what the thread did before in this burst, so that weights are
 * without bias.
 */
static __always_inline u64 threshold_of(const struct profd_malloc_thread *sum)
{
	u64 counted = (u64)sum->allocations + sum->frees;
	u64 step = counted / ALL_WALKED;
	u64 threshold;

	if (!step)
		return 0;
	if (step > MAX_STEP)
		step = MAX_STEP;
	threshold = (sum->allocated + sum->freed) / counted * step;
	return threshold > MAX_THRESHOLD ? MAX_THRESHOLD : threshold;
}

static __always_inline void count_bytes(struct profd_sample_key *key, u32 kind, u64 weight)
{
	key->kind = kind;
	if (weight && !count_in(&malloc_counts, key, weight))
		lose(PROFD_LOSS_MALLOC_FULL, 1);
}

/* Walks and counts the stack. A call below the threshold stands for others. */
static __always_inline void count_malloc_call(struct pt_regs *regs, struct task_struct *task,
					      u64 thread_id, const struct malloc_call *call,
					      u64 threshold)
{
	struct profd_sample_key key = {.sysno = -1, .arg0 = PROFD_BURST_ARGUMENT};
	u64 allocated = call->allocated, freed = call->freed;
	u64 size = allocated + freed;

	if (size < threshold) {
		if ((u64)bpf_get_prandom_u32() * threshold >= size << 32)
			return;
		allocated = allocated * threshold / size;
		freed = freed * threshold / size;
	}
	key.thread_id = thread_id;
	key.stack = own_stack(regs->ip, regs->sp, regs->bp, true);
	if (!key.stack) {
		lose(PROFD_LOSS_HEAP_BUSY, 1);
		return;
	}
	count_bytes(&key, PROFD_KIND_ALLOC, allocated);
	count_bytes(&key, PROFD_KIND_FREE, freed);
}

/* The sums of a thread in this burst. NULL when the table is full. */
static __always_inline struct profd_malloc_thread *sum_of(u64 thread_id)
{
	struct profd_malloc_thread *sum = bpf_map_lookup_elem(&malloc_threads, &thread_id);

	if (sum)
		return sum;
	bpf_map_update_elem(&malloc_threads, &thread_id, &malloc_nothing, BPF_NOEXIST);
	return bpf_map_lookup_elem(&malloc_threads, &thread_id);
}

/* In the burst. */
static __always_inline void enter_call(struct pt_regs *regs, struct task_struct *task,
				       u64 thread_id, u64 cookie, struct profd_malloc_thread *sum)
{
	u64 threshold = threshold_of(sum);
	struct malloc_call call;

	sum->calls++;
	sum->stepped += PROFD_PROBE_STEPPED(cookie);
	sum->watch_id = PROFD_PROBE_WATCH(cookie);
	if (!read_call(regs, PROFD_PROBE_PLACE(cookie), &call))
		return;
	sum->allocated += call.allocated;
	sum->freed += call.freed;
	sum->allocations += call.allocated != 0;
	sum->frees += call.freed != 0;
	count_malloc_call(regs, task, thread_id, &call, threshold);
}

/* Whether the thread was last without a CPU because others had it. */
static __always_inline bool was_preempted(const struct profd_thread *thread)
{
	return thread->ledger.armed && thread->ledger.armed == switch_epoch &&
	       thread->ledger.phase == PROFD_PHASE_RUNQUEUE;
}

/* Begins a run. Since the one before, or the begin of the burst, the thread may have waited, or
 * wanted a CPU.
 */
static __always_inline void begin_run(struct profd_malloc_thread *sum, struct task_struct *task,
				      const struct profd_thread *thread, u64 now)
{
	u64 delay = task->sched_info.run_delay;
	u64 queued = delay - sum->last_delay;

	if (!sum->calls) {
		sum->first_ns = malloc_begin_ns;
		if (was_preempted(thread))
			sum->queued_ns = now - malloc_begin_ns;
		else
			sum->waited_ns = now - malloc_begin_ns;
	} else {
		sum->queued_ns += queued;
		if (task->nvcsw != sum->last_switches)
			sum->waited_ns += now - sum->last_ns - queued;
	}
	sum->last_delay = delay;
}

/* Ends it; the time that it took. A thread may have been without a CPU in the middle of it. */
static __always_inline u64 end_run(struct profd_malloc_thread *sum, struct task_struct *task,
				   u64 began)
{
	u64 delay = task->sched_info.run_delay;
	u64 queued = delay - sum->last_delay;
	u64 now = bpf_ktime_get_ns();
	u64 took = now - began;

	took = took > queued ? took - queued : 0;
	sum->queued_ns += queued;
	sum->last_delay = delay;
	sum->last_switches = task->nvcsw;
	sum->last_ns = now;
	sum->ns += took;
	return took;
}

/* At the places of enum profd_malloc_place. */
SEC("uprobe")
int on_malloc(struct pt_regs *regs)
{
	u64 began = bpf_ktime_get_ns();
	struct task_struct *task = bpf_get_current_task_btf();
	struct profd_thread *thread = thread_of(task);
	struct profd_malloc_thread *sum;
	struct profd_malloc_cost *cost;
	u64 cookie;
	u32 zero = 0;

	if (!thread || !thread->thread_id)
		return 0;
	cost = bpf_map_lookup_elem(&malloc_cost, &zero);
	if (!cost)
		return 0;
	cookie = bpf_get_attach_cookie(regs);
	cost->calls++;
	cost->stepped += PROFD_PROBE_STEPPED(cookie);
	if (began - malloc_begin_ns >= malloc_length_ns)
		return 0;
	if (!make_known(thread))
		return 0;
	sum = sum_of(thread->thread_id);
	if (!sum) {
		lose(PROFD_LOSS_MALLOC_FULL, 1);
		return 0;
	}
	begin_run(sum, task, thread, began);
	enter_call(regs, task, thread->thread_id, cookie, sum);
	cost->ns += end_run(sum, task, began);
	return 0;
}
