// SPDX-License-Identifier: GPL-2.0-only
/* The live heap by stack: objects that jemalloc samples for its own profiling, as they come to life
 * and as they go. Between two of them it costs nothing.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "abi.h"
#include "probe_cost.bpf.h"
#include "loss.bpf.h"
#include "own_walk.bpf.h"
#include "target.bpf.h"

/* How far above the stack pointer a local variable of a caller lies, at most. */
#define MAX_LOCAL (1 << 16)
/* No object is as large. */
#define MAX_OBJECT (1ULL << 47)
/* What jemalloc has instead of the context of an object that is not sampled. */
#define NO_CONTEXT 1

/* What jemalloc keeps of a sampled object (5.3: prof_info_t). */
struct sampled_info {
	u64 born; /* by its clock, ns */
	u64 context;
};

/* What is told of an object. */
struct live_event {
	u64 size;
	u64 context;
	u64 born;
	bool gone;
};

/* Arguments of the function whose first instruction it is, from the second one on. */
struct arguments {
	u64 second, third, fourth, fifth;
	u64 sp;
};

/* All at once: read where they are needed, they would make the compiler compute with `regs`, which
 * no program may.
 */
static __always_inline void read_arguments(struct pt_regs *regs, struct arguments *arguments)
{
	u64 second = regs->si, third = regs->dx, fourth = regs->cx, fifth = regs->r8, sp = regs->sp;

	barrier_var(second);
	barrier_var(third);
	barrier_var(fourth);
	barrier_var(fifth);
	barrier_var(sp);
	arguments->second = second;
	arguments->third = third;
	arguments->fourth = fourth;
	arguments->fifth = fifth;
	arguments->sp = sp;
}

static __always_inline bool is_local(struct arguments *arguments, u64 address)
{
	return address - arguments->sp < MAX_LOCAL;
}

/* Versions differ in whether the object's address is among the arguments. The info tells: it is a
 * local variable of the caller, which a size is not.
 */
static __always_inline bool read_gone(struct arguments *arguments, struct live_event *event)
{
	struct sampled_info info;
	u64 address;

	if (is_local(arguments, arguments->third)) {
		address = arguments->third;
		event->size = arguments->second;
	} else if (is_local(arguments, arguments->fourth)) {
		address = arguments->fourth;
		event->size = arguments->third;
	} else {
		return false;
	}
	if (bpf_probe_read_user(&info, sizeof(info), (void *)address))
		return false;
	event->context = info.context;
	event->born = info.born;
	return true;
}

/* False when it is not what it should be. */
static __always_inline bool read_live_event(struct pt_regs *regs, u32 place,
					    struct live_event *event)
{
	struct arguments arguments;

	read_arguments(regs, &arguments);
	event->born = 0;
	event->gone = place == PROFD_LIVE_GONE_5_2 || place == PROFD_LIVE_GONE_5_3;
	if (place == PROFD_LIVE_GONE_5_3) {
		if (!read_gone(&arguments, event))
			return false;
	} else if (place == PROFD_LIVE_BORN_5_3) {
		event->size = arguments.fourth;
		event->context = arguments.fifth;
	} else {
		event->size = arguments.third;
		event->context = arguments.fourth;
	}
	return event->size && event->size < MAX_OBJECT && event->context > NO_CONTEXT;
}

/* True when a stack was taken. */
static __always_inline bool handle_object(struct pt_regs *regs, struct task_struct *task,
					  struct profd_thread *thread)
{
	u64 cookie = bpf_get_attach_cookie(regs);
	u64 now = bpf_ktime_get_ns();
	struct profd_live_heap_record *record;
	struct live_event event;
	u64 stack = 0;

	if (!read_live_event(regs, PROFD_PROBE_PLACE(cookie), &event)) {
		lose(event.gone ? PROFD_LOSS_LIVE_GONE : PROFD_LOSS_LIVE_BORN, 1);
		return false;
	}
	if (!event.gone) {
		stack = own_stack(regs->ip, regs->sp, regs->bp, true);
		if (!stack) {
			lose(PROFD_LOSS_LIVE_BORN, 1);
			return false;
		}
	}
	record = bpf_ringbuf_reserve(&events, sizeof(*record), 0);
	if (!record) {
		lose(event.gone ? PROFD_LOSS_LIVE_GONE : PROFD_LOSS_LIVE_BORN, 1);
		return !event.gone;
	}
	record->type = PROFD_RECORD_LIVE_HEAP;
	record->watch_id = PROFD_PROBE_WATCH(cookie);
	record->time = now;
	record->thread_id = thread->thread_id;
	record->context = event.context;
	record->stack = stack;
	record->size = event.size;
	record->born = event.born;
	record->pid = visible_pid(untrusted(task)->group_leader);
	record->pad = 0;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return !event.gone;
}

/* At the places of enum profd_live_place. */
SEC("uprobe")
int on_live_object(struct pt_regs *regs)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct profd_thread *thread = thread_of(task);
	u64 began;
	bool walked;

	if (!thread || !thread->thread_id || !make_known(thread))
		return 0;
	began = bpf_ktime_get_ns();
	walked = handle_object(regs, task, thread);
	add_heap_cost(began, PROFD_PROBE_STEPPED(bpf_get_attach_cookie(regs)), walked);
	return 0;
}
