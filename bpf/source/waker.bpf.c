// SPDX-License-Identifier: GPL-2.0-only
/* Who ends the waits that ticks have seen. Runs in the waker, interrupts off, for each wake-up; it
 * walks a stack only if a tick has seen the wait.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "abi.h"
#include "aggregate.bpf.h"
#include "durations.bpf.h"
#include "interrupts.bpf.h"
#include "loss.bpf.h"
#include "scheduler_walk.bpf.h"
#include "target.bpf.h"
#include "unwind.bpf.h"
#include "wait_end.bpf.h"
#include "waits.bpf.h"

#define MAX_WAKER_FRAMES (PROFD_MAX_KERNEL_FRAMES - PROFD_WAKER_NAME_FRAMES)

/* The waker of one wait in so many is counted, at random. */
profd_u32 waker_one_in;

/* The CPUs whose program counts. */
profd_u32 waker_counting[PROFD_MAX_CPUS];

/* Waits by thread, stack and waker's stack, in two epochs. */
struct counter_table waker_even SEC(".maps");
struct counter_table waker_odd SEC(".maps");

/* The live epoch. After changing it, the daemon waits for programs that count. */
profd_u32 waker_epoch;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct profd_waker_cost);
} waker_cost SEC(".maps");

/* Whether the waker of this wait is counted. Its weight is then that of all that are not. */
static __always_inline bool is_counted(u64 *weight)
{
	u32 one_in = waker_one_in;

	if (one_in <= 1)
		return true;
	*weight *= one_in;
	return bpf_get_prandom_u32() % one_in == 0;
}

/* One run in PROFD_COST_SAMPLE is timed. */
static __always_inline bool is_wake_timed(void)
{
	return !(bpf_get_prandom_u32() & (PROFD_COST_SAMPLE - 1));
}

/* Of `count` kernel frames, those that belong to whoever woke. `interrupt`: nobody did. A stack
 * that is too deep to see may have an interrupt in it.
 */
static __always_inline u32 frames_of_waker(struct walk *walk, struct task_struct *waker, u32 count,
					   bool *interrupt)
{
	u32 interrupted = frames_of_interrupt(walk, PROFD_WAKER_NAME_FRAMES, count);
	bool too_deep = !interrupted && count == MAX_WAKER_FRAMES;

	*interrupt = interrupted || too_deep || !waker->pid;
	if (interrupted)
		return interrupted;
	return too_deep ? 0 : count;
}

/* Walks the stack of the current thread, or that of the interrupt, and sends it. Returns its hash.
 * The user's frames are walked of targets only. `end`: how the wait ended, if it is asked for.
 */
static __always_inline u64 take_waker_stack(void *ctx, struct task_struct *waker, struct walk *walk,
					    u32 cpu, u32 *end)
{
	u64 *names = walk->record.frames;
	struct profd_thread *thread;
	bool interrupt;
	u32 count;
	long bytes;

	bytes = bpf_get_stack(ctx, names + PROFD_WAKER_NAME_FRAMES, MAX_WAKER_FRAMES * 8, 0);
	count = frames_of_waker(walk, waker, bytes > 0 ? (u32)bytes / 8 : 0, &interrupt);
	if (*end)
		*end = end_of_wait(walk, PROFD_WAKER_NAME_FRAMES, count);
	names[0] = names[1] = names[2] = names[3] = 0;
	if (!interrupt) {
		bpf_probe_read_kernel_str(names, PROFD_COMM_LEN,
					  &untrusted(waker)->group_leader->comm);
		bpf_probe_read_kernel_str(names + 2, PROFD_COMM_LEN, &waker->comm);
	}
	count += PROFD_WAKER_NAME_FRAMES;
	begin_in_scheduler(walk, count);
	/* Of others the kernel's frames are the whole stack. */
	walk->result = PROFD_WALK_COMPLETE;
	thread = thread_of(waker);
	if (!interrupt && thread && thread->thread_id)
		walk_in_scheduler(cpu);
	return send_walk(walk, count);
}

static __always_inline bool count_wait_in_epoch(struct profd_sample_key *key, u64 weight, u64 count)
{
	return waker_epoch ? count_many_in(&waker_odd, key, weight, count)
			   : count_many_in(&waker_even, key, weight, count);
}

/* Counts a wait for a lock by how long it took. Takes over the key of its waker. */
static __always_inline bool count_ended(struct profd_sample_key *key, struct profd_thread *waiter,
					u64 weight, u64 ns, u32 end)
{
	u64 waits = waits_of(weight, ns);

	key->kind = PROFD_KIND_ENDED;
	key->stack = waiter->tick_stack;
	key->arg0 = waiter->tick_arg0;
	key->sysno = PROFD_ENDED(waiter->tick_sysno, bucket_of(ns), end);
	return count_wait_in_epoch(key, waits,
				   (waits * waits + PROFD_ENDED_ONE / 2) / PROFD_ENDED_ONE);
}

static __always_inline void lose_waker(u64 weight)
{
	lose(PROFD_LOSS_WAKER_LOST, 1);
	lose(PROFD_LOSS_WAKER_LOST_NS, weight);
}

/* Counts who ends a wait now. Of a wait for a lock it also counts how long it took and how it
 * ended: each may find room without the other one.
 */
static __always_inline void count_waker(void *ctx, struct task_struct *waker,
					struct profd_thread *waiter, u32 cpu, u64 weight, u64 now)
{
	struct profd_sample_key key = {.sysno = -1, .kind = PROFD_KIND_WAKER};
	struct walk *walk = bpf_map_lookup_elem(&scheduler_scratch, &cpu);
	u32 end = waiter->wait_reason == PROFD_REASON_LOCK;
	u64 ns = end ? wait_until(waiter, now) : 0;

	if (!walk) {
		lose_waker(weight);
		return;
	}
	key.thread_id = waiter->thread_id;
	key.arg0 = waiter->tick_stack;
	key.reason = waiter->wait_reason;
	key.stack = take_waker_stack(ctx, waker, walk, cpu, &end);
	waiter->wait_waker = key.stack;
	if (!count_wait_in_epoch(&key, weight, waiter->wait_ticks))
		lose_waker(weight);
	if (ns && !count_ended(&key, waiter, weight, ns, end))
		lose(PROFD_LOSS_LOCK_WAIT, 1);
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task)
{
	struct task_struct *waker = bpf_get_current_task_btf();
	u32 cpu = bpf_get_smp_processor_id();
	struct profd_waker_cost *cost;
	struct profd_thread *thread;
	u64 began = 0, weight;
	u32 zero = 0, *counting;

	/* A thread that ends its own wait has not gone to sleep. Interrupts are on then. */
	if (!untrusted(task)->bpf_storage || task == waker)
		return 0;
	if (is_wake_timed())
		began = bpf_ktime_get_ns();
	thread = bpf_task_storage_get(&threads, task, 0, 0);
	cost = bpf_map_lookup_elem(&waker_cost, &zero);
	if (!thread || !cost)
		return 0;
	cost->wakes++;
	mark_woken(thread);
	weight = take_wait(thread, task);
	if (!weight || !is_counted(&weight)) {
		if (began) {
			cost->timed++;
			cost->timed_ns += bpf_ktime_get_ns() - began;
		}
		return 0;
	}
	began = bpf_ktime_get_ns();
	counting = &waker_counting[cpu & (PROFD_MAX_CPUS - 1)];
	/* A full barrier: the daemon sees it before the epoch is read. */
	__sync_val_compare_and_swap(counting, 0, 1);
	count_waker(ctx, waker, thread, cpu, weight, began);
	/* The walk took some time, in which a tick may have cleared the mark. */
	mark_woken(thread);
	barrier();
	*(volatile u32 *)counting = 0;
	cost->walks++;
	cost->walk_ns += bpf_ktime_get_ns() - began;
	return 0;
}
