/* Who has the CPU that a thread waits for. */
#ifndef PROFD_BPF_OCCUPANT_BPF_H_
#define PROFD_BPF_OCCUPANT_BPF_H_

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "abi.h"
#include "description.bpf.h"
#include "field.bpf.h"
#include "ledger.bpf.h"
#include "loss.bpf.h"
#include "target.bpf.h"

#define QUEUE_LOOKS 32 /* threads of a run queue that are looked at */
#define QUOTA_LEVELS 8 /* cgroups that are looked at */

/* Until when the processes that were told are paid for. */
profd_u64 occupants_paid;

struct queue_search {
	struct list_head *head;
	struct list_head *at;
	u64 latest; /* when `found` left the CPU, by its clock_task */
	struct task_struct *found;
};

/* Looks for who ran last of those that are queued. A thread that came from another CPU has run on
 * none: the kernel clears its exec_start.
 */
static long look_in_queue(u32 index, struct queue_search *search)
{
	struct list_head *at = search->at;
	struct task_struct *task;
	u64 ran;

	if (!at || at == search->head)
		return 1;
	task = (void *)at - bpf_core_field_offset(struct task_struct, se.group_node);
	search->at = FIELD(list_head, at, next);
	ran = FIELD(task_struct, task, se.exec_start);
	if ((u64)task == bpf_get_current_task() || ran <= search->latest)
		return 0;
	search->latest = ran;
	search->found = task;
	return 0;
}

/* Who ran on the CPU of this queue at the instant, ns: who has it now, or, where that is the daemon
 * itself, which came after it, who has left it since. NULL: nobody that is known.
 */
static __always_inline struct task_struct *occupant_of(struct rq *rq, u64 instant)
{
	struct task_struct *now = FIELD(rq, rq, curr);
	struct queue_search search = {};
	u64 left;

	if ((u64)now != bpf_get_current_task())
		return now;
	search.head = (void *)rq + bpf_core_field_offset(struct rq, cfs_tasks);
	search.at = FIELD(list_head, search.head, next);
	bpf_loop(QUEUE_LOOKS, look_in_queue, &search, 0);
	left = search.latest + FIELD(rq, rq, clock) - FIELD(rq, rq, clock_task) + clock_distance;
	return (s64)(left - instant) >= 0 ? search.found : NULL;
}

/* Whether a CPU quota holds the thread back. Since 6.18 that is a state of the thread, before of
 * the queue that it is in.
 */
static __always_inline bool is_throttled(struct task_struct *task, struct cfs_rq *queue)
{
	if (bpf_core_field_exists(struct task_struct, throttled))
		return FIELD(task_struct, task, throttled);
	return bpf_core_field_exists(struct cfs_rq, throttle_count) &&
	       FIELD(cfs_rq, queue, throttle_count) > 0;
}

struct quota_search {
	struct sched_entity *at;
	struct task_group *found;
};

/* The outermost cgroup whose threads are held back is the one with the quota. */
static long look_at_level(u32 index, struct quota_search *search)
{
	struct cfs_rq *queue;

	if (!search->at)
		return 1;
	queue = FIELD(sched_entity, search->at, cfs_rq);
	if (FIELD(cfs_rq, queue, throttle_count) <= 0)
		return 1;
	search->found = FIELD(cfs_rq, queue, tg);
	search->at = FIELD(sched_entity, search->at, parent);
	return 0;
}

/* Returns the bytes of text behind the description. */
static __always_inline u32 describe_quota(struct object_scratch *scratch, struct task_struct *task)
{
	struct quota_search search = {};
	struct cgroup *cgroup;
	long bytes;

	object_in(scratch)->kind = PROFD_OBJECT_QUOTA;
	if (!bpf_core_field_exists(struct cfs_rq, throttle_count))
		return 0;
	search.at = (void *)task + bpf_core_field_offset(struct task_struct, se);
	bpf_loop(QUOTA_LEVELS, look_at_level, &search, 0);
	if (!search.found)
		return 0;
	cgroup = FIELD(task_group, search.found, css.cgroup);
	bytes = bpf_probe_read_kernel_str(scratch->text.names, PATH_MAX_NAME,
					  FIELD(kernfs_node, FIELD(cgroup, cgroup, kn), name));
	return bytes > 1 ? bytes : 0;
}

static __always_inline u32 describe_occupant_task(struct object_scratch *scratch,
						  struct task_struct *occupant)
{
	struct profd_object *object = object_in(scratch);
	struct task_struct *leader = FIELD(task_struct, occupant, group_leader);
	long bytes;

	object->kind = PROFD_OBJECT_OCCUPANT;
	bpf_probe_read_kernel_str(object->name, sizeof(object->name), &leader->comm);
	if (FIELD(task_struct, occupant, flags) & PF_KTHREAD) {
		object->flags = PROFD_OBJECT_KERNEL;
		return 0;
	}
	object->number = visible_number(FIELD(task_struct, leader, thread_pid));
	if (leader == occupant)
		return 0;
	bytes = bpf_probe_read_kernel_str(scratch->text.names, PROFD_COMM_LEN, &occupant->comm);
	return bytes > 1 ? bytes : 0;
}

/* Describes what the thread in the scratch, which can run, waits for. Returns whether that is
 * known. Neither static nor inlined: the verifier follows it once.
 */
__noinline int describe_cpu_wait(u32 slot, u64 instant)
{
	struct object_scratch *scratch = bpf_map_lookup_elem(&object_scratch, &slot);
	struct task_struct *task, *occupant;
	struct cfs_rq *queue;
	u32 bytes = 0;

	if (!scratch || !has_scheduler_clock() ||
	    bpf_probe_read_kernel(object_in(scratch), sizeof(struct profd_object), object_zeros))
		return 0;
	task = scratch->task;
	queue = FIELD(task_struct, task, se.cfs_rq);
	if (is_throttled(task, queue)) {
		bytes = describe_quota(scratch, task);
	} else {
		occupant = occupant_of(FIELD(cfs_rq, queue, rq), instant);
		if (!occupant)
			return 0;
		if (occupant == task || !FIELD(task_struct, occupant, pid))
			object_in(scratch)->kind = PROFD_OBJECT_IDLE_CPU;
		else
			bytes = describe_occupant_task(scratch, occupant);
	}
	finish_object(scratch, bytes);
	return 1;
}

/* Who has the CPU that the thread waits for, or had it at the instant, ns. NULL: not known. */
static __always_inline struct profd_stack_record *find_occupant(struct task_struct *task, u32 slot,
								u64 instant)
{
	struct object_scratch *scratch = bpf_map_lookup_elem(&object_scratch, &slot);

	if (!scratch)
		return NULL;
	scratch->task = task;
	return describe_cpu_wait(slot, instant) ? &scratch->record : NULL;
}

/* Leaves only the process's name in the description. */
__noinline int generalize_occupant(u32 slot)
{
	struct object_scratch *scratch = bpf_map_lookup_elem(&object_scratch, &slot);

	if (!scratch)
		return 0;
	object_in(scratch)->number = 0;
	finish_object(scratch, 0);
	return 0;
}

/* The same, sent. Returns what stands for it as an argument; 0: not known. */
static __noinline u64 note_occupant(struct task_struct *task, u64 instant)
{
	struct profd_stack_record *record = find_occupant(task, OBJECT_OF_TICK, instant);

	if (!record)
		return 0;
	if (send_description(record, &occupants_paid, PROFD_OCCUPANT_BURST,
			     PROFD_OCCUPANTS_A_SECOND))
		return record->hash;
	generalize_occupant(OBJECT_OF_TICK);
	if (send_description(record, &objects_paid, PROFD_OBJECT_BURST, PROFD_OBJECTS_A_SECOND))
		return record->hash;
	lose(PROFD_LOSS_OBJECT, 1);
	return PROFD_OBJECT_BIT;
}

#endif /* PROFD_BPF_OCCUPANT_BPF_H_ */
