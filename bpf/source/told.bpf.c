// SPDX-License-Identifier: GPL-2.0-only
/* Objects that an allocator samples and tells of by itself, at its USDT probes
 * otel_memory:alloc(pointer, size, weighted bytes) and otel_memory:free(pointer). Between two of
 * them it costs nothing.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "abi.h"
#include "probe_cost.bpf.h"
#include "loss.bpf.h"
#include "own_walk.bpf.h"
#include "registers.bpf.h"
#include "target.bpf.h"

/* No object is as large, and none stands for as much. */
#define MAX_OBJECT (1ULL << 47)

/* Where the arguments of probes are; a probe's cookie has the number. Written by the daemon. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PROFD_MAX_USDT_SPECS);
	__type(key, u32);
	__type(value, struct profd_usdt_spec);
} usdt_specs SEC(".maps");

/* False when it lies in memory that cannot be read. */
static __always_inline bool read_argument(struct pt_regs *regs,
					  const struct profd_usdt_argument *argument, u64 *result)
{
	u64 value = argument->value;
	u32 size = argument->size;
	u64 memory = 0;
	u32 cut;

	value += register_at(regs, argument->base);
	value += register_at(regs, argument->index) << (argument->shift & 63);
	barrier_var(size);
	if (size > sizeof(u64))
		return false;
	if (argument->in_memory) {
		if (bpf_probe_read_user(&memory, size, (void *)value))
			return false;
		value = memory;
	}
	cut = (64 - 8 * size) & 63;
	value <<= cut;
	*result = argument->is_signed ? (u64)((s64)value >> cut) : value >> cut;
	return true;
}

/* What is told of an object. */
struct told_object {
	u64 address;
	u64 size;
	u64 weight;
};

/* False when it is not what it should be. */
static __always_inline bool read_object(struct pt_regs *regs, const struct profd_usdt_spec *spec,
					bool gone, struct told_object *object)
{
	object->size = 0;
	object->weight = 0;
	if (!read_argument(regs, &spec->arguments[0], &object->address))
		return false;
	if (gone)
		return true;
	return read_argument(regs, &spec->arguments[1], &object->size) &&
	       read_argument(regs, &spec->arguments[2], &object->weight) && object->address &&
	       object->weight && object->size < MAX_OBJECT && object->weight < MAX_OBJECT;
}

/* True when a stack was taken. */
static __always_inline bool tell_object(struct pt_regs *regs, struct task_struct *task,
					struct profd_thread *thread, u64 cookie)
{
	u64 now = bpf_ktime_get_ns();
	u32 number = PROFD_USDT_SPEC(cookie);
	bool gone = PROFD_PROBE_PLACE(cookie) == PROFD_USDT_FREE;
	struct profd_told_record *record;
	struct profd_usdt_spec *spec;
	struct told_object object;
	u64 stack;

	spec = bpf_map_lookup_elem(&usdt_specs, &number);
	if (!spec || !read_object(regs, spec, gone, &object)) {
		lose(gone ? PROFD_LOSS_LIVE_GONE : PROFD_LOSS_LIVE_BORN, 1);
		return false;
	}
	stack = own_stack(regs->ip, regs->sp, regs->bp, false);
	/* Who freed it matters less than that it is gone. */
	if (!stack && !gone) {
		lose(PROFD_LOSS_LIVE_BORN, 1);
		return false;
	}
	record = bpf_ringbuf_reserve(&events, sizeof(*record), 0);
	if (!record) {
		lose(gone ? PROFD_LOSS_LIVE_GONE : PROFD_LOSS_LIVE_BORN, 1);
		return stack != 0;
	}
	record->type = PROFD_RECORD_TOLD;
	record->watch_id = PROFD_PROBE_WATCH(cookie);
	record->time = now;
	record->thread_id = thread->thread_id;
	record->address = object.address;
	record->size = object.size;
	record->weight = object.weight;
	record->stack = stack;
	record->pid = visible_pid(untrusted(task)->group_leader);
	record->gone = gone;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return stack != 0;
}

/* At the places of enum profd_usdt_place. */
SEC("uprobe")
int on_told_object(struct pt_regs *regs)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct profd_thread *thread = thread_of(task);
	u64 began, cookie;
	bool walked;

	if (!thread || !thread->thread_id || !make_known(thread))
		return 0;
	began = bpf_ktime_get_ns();
	cookie = bpf_get_attach_cookie(regs);
	walked = tell_object(regs, task, thread, cookie);
	add_heap_cost(began, PROFD_PROBE_STEPPED(cookie), walked);
	return 0;
}
