// SPDX-License-Identifier: GPL-2.0-only
/* The per-switch layer: exact time by reason. Runs in the path of the target; walks no stack. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "abi.h"
#include "exited.bpf.h"
#include "ledger.bpf.h"
#include "long_wait.bpf.h"
#include "loss.bpf.h"
#include "reason.bpf.h"
#include "target.bpf.h"

/* What this program costs the threads it runs in. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct profd_switch_cost);
} switch_cost SEC(".maps");

/* By how much the distance of the clocks may have grown since it was last seen: by a slewed clock,
 * 1 in 2,048 at most, and by what comes between two readings.
 */
#define DRIFT_SHIFT 11
#define READING_NS 10000
/* More is no pause of a CPU: the machine was suspended. */
#define SUSPENDED_NS 1000000000

profd_u64 distance_seen_at;

/* The program that takes stacks of switches, where the kernel took it. It goes on after the
 * ledger's, as a second one at each switch would cost as much as the ledger.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} after_switch SEC(".maps");

/* It goes on after one switch in so many, at random: 2 to this power. Set by the daemon. */
profd_u32 switch_stack_shift;
profd_u32 switch_stacks_wanted;

/* Learns the distance anew. A CPU that stood still between the readings of the two clocks, as a
 * virtual one may, makes it look larger than it is, never smaller.
 */
static __always_inline void learn_distance(u64 ours, u64 schedulers)
{
	u64 seen = ours - schedulers;
	u64 most = clock_distance + READING_NS + ((ours - distance_seen_at) >> DRIFT_SHIFT);
	s64 more = seen - most;

	if (distance_seen_at && more > 0 && more < SUSPENDED_NS)
		seen = most;
	clock_distance = seen;
	distance_seen_at = ours;
}

/* One run in PROFD_COST_SAMPLE is timed. A product's high bits are even where a clock's are not. */
static __always_inline bool is_timed(u64 clock)
{
	return !(clock * 0x9e3779b97f4a7c15ULL >> (64 - PROFD_COST_SAMPLE_BITS));
}

/* Adds what a run that began at `begin` took, less the reading of the clock that it is timed by. */
static __always_inline void add_cost(u64 begin)
{
	struct profd_switch_cost *cost;
	u64 end = bpf_ktime_get_ns();
	u64 reading = bpf_ktime_get_ns() - end;
	u32 zero = 0;

	cost = bpf_map_lookup_elem(&switch_cost, &zero);
	if (!cost || end - begin < reading)
		return;
	cost->timed++;
	cost->timed_ns += end - begin - reading;
}

/* Enters the cycle of wait and run that ends as `prev` leaves its CPU. */
SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	u8 reason = PROFD_REASON_RUNQUEUE;
	u8 phase = PROFD_PHASE_RUNQUEUE;
	struct profd_thread *thread;
	struct ended_wait ended;
	u64 arg0, now, begin = 0;
	bool has_stack;
	s32 sysno;

	if (!has_scheduler_clock() || !prev->bpf_storage)
		return 0;
	now = left_at(prev);
	if (is_timed(now))
		begin = bpf_ktime_get_ns();
	thread = bpf_task_storage_get(&threads, prev, 0, 0);
	if (!thread)
		return 0;
	if (!thread->ledger.armed || thread->ledger.armed != switch_epoch) {
		if (thread->clock)
			learn_distance(bpf_ktime_get_ns(), scheduler_clock(prev));
		return 0;
	}
	if (!preempt && prev_state != TASK_RUNNING) {
		phase = PROFD_PHASE_BLOCKED;
		reason = blocked_reason(prev, (struct pt_regs *)bpf_task_pt_regs(prev), prev_state,
					&sysno, &arg0);
	}
	ended = ledger_out(thread, prev, phase, reason, now);
	if (is_long(&ended))
		tell_long_wait(prev, thread, &ended);
	if (prev_state & TASK_DEAD)
		close_account(prev, thread, CLOSING_SWITCH);
	has_stack = switch_stacks_wanted &&
		    !(bpf_get_prandom_u32() & ((1U << (switch_stack_shift & 31)) - 1));
	if (begin)
		add_cost(begin);
	if (has_stack)
		bpf_tail_call(ctx, &after_switch, 0);
	return 0;
}
