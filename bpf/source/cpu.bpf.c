// SPDX-License-Identifier: GPL-2.0-only
/* What threads run: a clock interrupts each CPU, and the stack of the thread there is counted. Runs
 * in the interrupt: it must not fault, and may interrupt a program at a probe.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "abi.h"
#include "aggregate.bpf.h"
#include "current_walk.bpf.h"
#include "kernel_frames.bpf.h"
#include "loss.bpf.h"
#include "target.bpf.h"
#include "unwind.bpf.h"

/* Context of the program: struct bpf_perf_event_data, whose header defines struct pt_regs too. */
struct clock_event {
	u64 registers[21]; /* of the interrupted code, in the order of struct pt_regs */
};
#define REGISTER_CS 17
#define USER_RING 3 /* in the low bits of cs */

/* Mean time on a CPU that a sample of it stands for, ns. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* possible CPUs; set by the daemon */
	__type(key, u32);
	__type(value, u64);
} cpu_periods SEC(".maps");

/* Memory of these walks, one per CPU: the interrupt does not interrupt itself, and programs at
 * probes have memory of their own. Sized by the daemon.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct walk);
} cpu_scratch SEC(".maps");

/* The CPUs whose program runs. */
profd_u32 cpu_walking[PROFD_MAX_CPUS];

/* Samples by thread and stack, in two epochs. */
struct counter_table cpu_even SEC(".maps");
struct counter_table cpu_odd SEC(".maps");

/* The live epoch. After changing it, the daemon waits for programs that run. */
profd_u32 cpu_epoch;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct profd_cpu_cost);
} cpu_cost SEC(".maps");

/* Walks both stacks of the current thread and sends them. Returns their hash. */
static __always_inline u64 take_running_stack(struct clock_event *event, struct task_struct *task,
					      struct walk *walk)
{
	struct walker walker = {.task = task, .walk = walk};
	long bytes = 0;
	u32 kernel_frames;

	/* In user mode the kernel's stack is empty. */
	if ((event->registers[REGISTER_CS] & USER_RING) == 0)
		bytes = bpf_get_stack(event, walk->record.frames, PROFD_MAX_KERNEL_FRAMES * 8, 0);
	kernel_frames = bytes > 0 ? (u32)bytes / 8 : 0;
	begin_after_kernel(walk, kernel_frames);
	walk->in_interrupt = 1;
	walk->hurried = 1;
	walk_user_part(&walker);
	return send_walk(walk, kernel_frames);
}

/* Counts the stack of the current thread. False: the sample is lost. */
static __always_inline bool count_running(struct clock_event *event, struct task_struct *task,
					  struct profd_thread *thread, u32 cpu, u64 period)
{
	struct profd_sample_key key = {.sysno = -1, .kind = PROFD_KIND_CPU};
	struct walk *walk = bpf_map_lookup_elem(&cpu_scratch, &cpu);

	if (!walk)
		return false;
	key.thread_id = thread->thread_id;
	key.stack = take_running_stack(event, task, walk);
	return cpu_epoch ? count_in(&cpu_odd, &key, period) : count_in(&cpu_even, &key, period);
}

SEC("perf_event")
int on_cpu_clock(struct clock_event *event)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct profd_thread *thread = thread_of(task);
	u32 cpu = bpf_get_smp_processor_id();
	struct profd_cpu_cost *cost;
	u32 *walking = &cpu_walking[cpu & (PROFD_MAX_CPUS - 1)];
	u32 zero = 0;
	u64 *period;
	u64 began;

	if (!thread || !thread->thread_id || !make_known(thread))
		return 0;
	began = bpf_ktime_get_ns();
	period = bpf_map_lookup_elem(&cpu_periods, &cpu);
	cost = bpf_map_lookup_elem(&cpu_cost, &zero);
	if (!period || !cost)
		return 0;
	/* A full barrier: the daemon sees it before the epoch is read. */
	__sync_val_compare_and_swap(walking, 0, 1);
	if (!count_running(event, task, thread, cpu, *period)) {
		lose(PROFD_LOSS_CPU_LOST, 1);
		lose(PROFD_LOSS_CPU_LOST_NS, *period);
	}
	barrier();
	*(volatile u32 *)walking = 0;
	cost->samples++;
	cost->ns += bpf_ktime_get_ns() - began;
	return 0;
}
