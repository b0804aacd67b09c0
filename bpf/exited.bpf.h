/* The end of a thread's account. One that the daemon knows leaves a last record; any other is added
 * to the exited threads of its process, so that a storm of short threads costs a few entries of a
 * table.
 */
#ifndef PROFD_BPF_EXITED_BPF_H_
#define PROFD_BPF_EXITED_BPF_H_

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "abi.h"
#include "loss.bpf.h"
#include "target.bpf.h"

struct exited_table {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct profd_exited_key);
	__type(value, struct profd_exited);
};

/* Two epochs. Entries only grow; the daemon changes the epoch to get rid of old ones. */
struct exited_table exited_even SEC(".maps");
struct exited_table exited_odd SEC(".maps");

/* The epoch that is added to, 0 or 1. */
profd_u32 exited_epoch;

/* By target, what found no place in these. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PROFD_EXITED_TARGETS);
	__type(key, u32);
	__type(value, struct profd_exited);
} exited_rest SEC(".maps");

/* Whether there is anything in `exited_rest`. */
profd_u32 exited_rest_used;

/* Last records that found the ring full, by thread id. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, struct profd_thread_record);
} last_records SEC(".maps");

/* How many were put there. */
profd_u64 last_records_kept;

/* From where an account is closed, or its end announced. Each may interrupt those before it on its
 * CPU.
 */
enum closing {
	CLOSING_DRAIN = 0,
	CLOSING_EXIT = 1,
	CLOSING_SWITCH = 2,
	CLOSING_FREE = 3,
	CLOSING_COUNT = 4,
};

/* Where such a record is put together, by enum closing. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, CLOSING_COUNT);
	__type(key, u32);
	__type(value, struct profd_thread_record);
} last_scratch SEC(".maps");

static const struct profd_exited nobody_exited;

static __always_inline void add_to(u64 *sum, u64 amount)
{
	if (amount)
		__sync_fetch_and_add(sum, amount);
}

/* The entry of the key in a table; NULL when it is full. */
static __always_inline struct profd_exited *exited_in(void *table, struct profd_exited_key *key,
						      struct profd_thread *thread)
{
	struct profd_exited *exited = bpf_map_lookup_elem(table, key);

	if (exited)
		return exited;
	bpf_map_update_elem(table, key, &nobody_exited, BPF_NOEXIST);
	exited = bpf_map_lookup_elem(table, key);
	if (exited)
		__builtin_memcpy(exited->process, thread->process, sizeof(exited->process));
	return exited;
}

/* Where the thread's account belongs. */
static __always_inline struct profd_exited *exited_of(struct profd_thread *thread)
{
	struct profd_exited_key key = {.target_id = thread->target_id, .pid = thread->exit_process};
	struct profd_exited *exited;
	u32 target = thread->target_id;

	if (!key.pid)
		__builtin_memcpy(key.process, thread->process, sizeof(key.process));
	exited = exited_epoch ? exited_in(&exited_odd, &key, thread)
			      : exited_in(&exited_even, &key, thread);
	if (exited)
		return exited;
	if (!exited_rest_used)
		exited_rest_used = 1;
	if (target >= PROFD_EXITED_TARGETS)
		target = 0;
	return bpf_map_lookup_elem(&exited_rest, &target);
}

/* How long it was watched where no ledger tells: until its exit began, and as long as it ran after
 * that.
 */
static __always_inline u64 watched_for(struct task_struct *task, struct profd_thread *thread)
{
	u64 busy = task->se.sum_exec_runtime - thread->begin_exec + task->sched_info.run_delay -
		   thread->begin_delay;
	s64 watched = thread->exit_at - thread->begin;

	return watched > (s64)busy ? watched : busy;
}

/* A whole life, but for what its ledger says of its waits. */
struct life {
	u64 attributed; /* 1: its ledger has all of it */
	u64 unattributed; /* else this, ns */
	u64 ran, queued; /* ns */
	u64 nvcsw, nivcsw;
	u64 min_flt, maj_flt;
	u64 read_bytes, write_bytes;
};

/* Adds a ledger; lives on the stack. */
struct folding {
	struct profd_exited *exited;
	const struct profd_ledger *ledger;
};

static long fold_reason(u32 reason, struct folding *folding)
{
	const struct profd_reason_total *from;
	struct profd_reason_total *to;

	barrier_var(reason); /* the mask comes last, where the verifier sees it */
	reason &= PROFD_REASON_COUNT - 1;
	from = &folding->ledger->reasons[reason];
	to = &folding->exited->reasons[reason];
	add_to(&to->ns, from->ns);
	add_to(&to->count, from->count);
	return 0;
}

/* Adds a life to those of its process. Neither static nor inlined: the verifier would follow it for
 * each table that an entry can be in.
 */
__noinline int add_life(struct profd_exited *exited, const struct profd_ledger *ledger,
			const struct life *life)
{
	struct folding folding = {.exited = exited, .ledger = ledger};

	if (!exited || !ledger || !life)
		return 0;
	_Static_assert(PROFD_REASON_COUNT == 16, "a power of 2");
	add_to(&exited->threads, 1);
	if (life->attributed)
		bpf_loop(PROFD_REASON_COUNT, fold_reason, &folding, 0);
	add_to(&exited->unattributed, life->unattributed);
	add_to(&exited->reasons[PROFD_REASON_RUNQUEUE].ns, life->queued);
	add_to(&exited->on_cpu, life->ran);
	add_to(&exited->exec_runtime, life->ran);
	add_to(&exited->run_delay, life->queued);
	add_to(&exited->nvcsw, life->nvcsw);
	add_to(&exited->nivcsw, life->nivcsw);
	add_to(&exited->min_flt, life->min_flt);
	add_to(&exited->maj_flt, life->maj_flt);
	add_to(&exited->read_bytes, life->read_bytes);
	add_to(&exited->write_bytes, life->write_bytes);
	return 0;
}

/* Adds a whole life. Its books began at 0: the daemon knows all threads that it came upon. */
static __always_inline void fold(struct task_struct *task, struct profd_thread *thread)
{
	struct profd_exited *exited = exited_of(thread);
	struct life life = {
		.attributed = ledger_goes_on(thread) && thread->armed_at <= thread->begin,
		.ran = task->se.sum_exec_runtime - thread->begin_exec,
		.queued = task->sched_info.run_delay - thread->begin_delay,
		.nvcsw = task->nvcsw,
		.nivcsw = task->nivcsw,
		.min_flt = task->min_flt,
		.maj_flt = task->maj_flt,
	};

	if (!life.attributed)
		life.unattributed = watched_for(task, thread) - life.ran - life.queued;
	if (bpf_core_field_exists(struct task_struct, ioac)) {
		life.read_bytes = task->ioac.read_bytes;
		life.write_bytes = task->ioac.write_bytes;
	}
	if (exited)
		add_life(exited, &thread->ledger, &life);
}

static __always_inline void read_last(struct profd_thread_record *record, u32 type,
				      struct task_struct *task, struct profd_thread *thread)
{
	u64 watched;

	record->pid = thread->exit_pid;
	record->tid = thread->exit_tid;
	record->start = task->start_boottime;
	record->process_start = 0; /* its leader may be gone */
	__builtin_memcpy(record->process, thread->process, sizeof(record->process));
	read_account(record, type, task, thread);
	if (type != PROFD_RECORD_DEAD || record->armed_at)
		return;
	watched = watched_for(task, thread);
	record->now = thread->begin + watched;
	record->clock = thread->begin_clock + watched;
}

/* Hands over the account of a known thread. Where the ring has no room, the last one is kept for
 * the daemon.
 */
static __always_inline void tell_last(u32 type, struct task_struct *task,
				      struct profd_thread *thread, u32 closing)
{
	struct profd_thread_record *record = bpf_map_lookup_elem(&last_scratch, &closing);

	if (!record)
		return;
	read_last(record, type, task, thread);
	if (!bpf_ringbuf_output(&events, record, sizeof(*record), BPF_RB_NO_WAKEUP) ||
	    type != PROFD_RECORD_DEAD)
		return;
	if (bpf_map_update_elem(&last_records, &thread->thread_id, record, BPF_ANY))
		lose(PROFD_LOSS_RING_FULL_EXIT, 1);
	else
		__sync_fetch_and_add(&last_records_kept, 1);
}

/* Closes the account of a thread whose books are final. Whoever comes second does nothing. */
static __noinline int close_account(struct task_struct *task, struct profd_thread *thread,
				    u32 closing)
{
	u32 fate;

	if (!thread)
		return 0;
	fate = __sync_val_compare_and_swap(&thread->fate, PROFD_FATE_UNKNOWN, PROFD_FATE_FOLDED);
	if (fate == PROFD_FATE_UNKNOWN) {
		fold(task, thread);
		return 0;
	}
	if (fate != PROFD_FATE_KNOWN)
		return 0;
	fate = __sync_val_compare_and_swap(&thread->fate, PROFD_FATE_KNOWN, PROFD_FATE_TOLD);
	if (fate == PROFD_FATE_KNOWN)
		tell_last(PROFD_RECORD_DEAD, task, thread, closing);
	return 0;
}

#endif /* PROFD_BPF_EXITED_BPF_H_ */
