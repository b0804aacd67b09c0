// SPDX-License-Identifier: GPL-2.0-only
/* Disk requests by the thread and stack that submitted them. A request begins in the submitter's
 * context, where only its first bio is known: the requests in flight are found by that. It is
 * issued and completed anywhere, completed mostly in an interrupt.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "abi.h"
#include "current_walk.bpf.h"
#include "kernel_frames.bpf.h"
#include "loss.bpf.h"
#include "own_walk.bpf.h"
#include "target.bpf.h"

/* In bi_opf. */
#define REQ_OP_MASK 0xff
#define REQ_OP_READ 0
#define REQ_OP_WRITE 1
#define REQ_OP_FLUSH 2
#define REQ_OP_DISCARD 3
#define REQ_OP_SECURE_ERASE 5

/* A bio that was put before the others hides the one by which a request is known: so many are
 * looked at.
 */
#define MOST_FIRST_BIOS 4

/* The stack of one request in so many is taken, at random. */
profd_u32 disk_stack_one_in;

/* Requests of targets that are not done: by the address of the bio that they began with, and after
 * a part of one is done by the address of the request.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, u64);
	__type(value, struct profd_disk_request);
} disk_requests SEC(".maps");

/* Requests that are done, in two epochs. */
struct disk_table {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct profd_disk_key);
	__type(value, struct profd_disk_value);
};
struct disk_table disk_even SEC(".maps");
struct disk_table disk_odd SEC(".maps");

/* The live epoch. After changing it, the daemon waits for programs that run. */
profd_u32 disk_epoch;
/* How many programs count on each CPU: one may interrupt another. */
profd_u32 disk_counting[PROFD_MAX_CPUS];

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct profd_disk_cost);
} disk_cost SEC(".maps");

static __always_inline u32 operation_of(struct bio *bio)
{
	u32 operation = bio->bi_opf & REQ_OP_MASK;

	/* A flush is a write of nothing. */
	if (operation == REQ_OP_FLUSH || (operation == REQ_OP_WRITE && !bio->bi_iter.bi_size))
		return PROFD_DISK_FLUSH;
	if (operation == REQ_OP_DISCARD || operation == REQ_OP_SECURE_ERASE)
		return PROFD_DISK_DISCARD;
	if (operation == REQ_OP_READ)
		return PROFD_DISK_READ;
	return operation & 1 ? PROFD_DISK_WRITE : PROFD_DISK_OTHER;
}

/* Neither static nor inlined, like own_stack. */
__noinline int walk_submitter(u32 slot)
{
	struct walker walker = {.task = bpf_get_current_task_btf()};

	walker.walk = bpf_map_lookup_elem(&own_scratch, &slot);
	if (walker.walk)
		walk_user_part(&walker);
	return 0;
}

/* Walks both stacks of the current thread and sends them. Returns their hash; 0 without memory for
 * the walk.
 */
static __always_inline u64 take_submitter_stack(void *context)
{
	u32 kernel_frames, slot;
	struct walk *walk;
	u64 hash;
	long bytes;

	walk = take_walk(&slot);
	if (!walk)
		return 0;
	bytes = bpf_get_stack(context, walk->record.frames, PROFD_MAX_KERNEL_FRAMES * 8, 0);
	kernel_frames = bytes > 0 ? (u32)bytes / 8 : 0;
	begin_after_kernel(walk, kernel_frames);
	walk->hurried = 1;
	walk_submitter(slot);
	hash = send_walk(walk, kernel_frames);
	drop_walk(slot);
	return hash;
}

/* The kernel makes a request of a bio, in the context of whoever submits it. */
SEC("tp_btf/block_getrq")
int BPF_PROG(on_disk_request, struct bio *bio)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct profd_thread *thread = thread_of(task);
	struct profd_disk_request request = {};
	u64 key = (u64)bio;
	struct profd_disk_cost *cost;
	u64 walked = 0;
	u32 zero = 0;
	u32 one_in;
	long error;

	if (!thread || !thread->thread_id || !make_known(thread)) {
		/* What is left of a request whose completion nobody saw would count this one. */
		if (!bpf_map_delete_elem(&disk_requests, &key))
			lose(PROFD_LOSS_DISK_LOST, 1);
		return 0;
	}
	cost = bpf_map_lookup_elem(&disk_cost, &zero);
	if (!cost)
		return 0;
	request.queued = bpf_ktime_get_ns();
	request.thread_id = thread->thread_id;
	request.device = bio->bi_bdev->bd_dev;
	request.operation = operation_of(bio);
	one_in = disk_stack_one_in;
	if (one_in <= 1 || bpf_get_prandom_u32() % one_in == 0) {
		request.stack = take_submitter_stack(ctx);
		walked = bpf_ktime_get_ns() - request.queued;
		cost->walks++;
		cost->walk_ns += walked;
	}
	error = bpf_map_update_elem(&disk_requests, &key, &request, BPF_NOEXIST);
	if (error == -17 /* EEXIST: as above */)
		error = bpf_map_update_elem(&disk_requests, &key, &request, BPF_ANY) ?: error;
	if (error)
		lose(PROFD_LOSS_DISK_LOST, 1);
	cost->requests++;
	cost->ns += bpf_ktime_get_ns() - request.queued - walked;
	return 0;
}

/* The request that began with one of these bios. */
static __always_inline struct profd_disk_request *find_request(struct request___disk *rq, u64 *key)
{
	struct profd_disk_request *found = NULL;
	struct bio *bio = rq->bio;

#pragma unroll
	for (int i = 0; i < MOST_FIRST_BIOS; i++) {
		if (found || !bio)
			break;
		*key = (u64)bio;
		found = bpf_map_lookup_elem(&disk_requests, key);
		bio = bio->bi_next;
	}
	return found;
}

/* The driver gets a request. */
SEC("tp_btf/block_rq_issue")
int BPF_PROG(on_disk_issue, struct request___disk *rq)
{
	u64 key;
	struct profd_disk_request *request = find_request(rq, &key);

	if (request && !request->issued)
		request->issued = bpf_ktime_get_ns();
	return 0;
}

/* All of a request becomes a part of another one, which has it counted. */
SEC("tp_btf/block_rq_merge")
int BPF_PROG(on_disk_merge, struct request___disk *rq)
{
	u64 key = (u64)rq->bio;

	bpf_map_delete_elem(&disk_requests, &key);
	return 0;
}

/* False when the table is full. Other CPUs add to the same counters. */
static __always_inline bool count_request(void *table, struct profd_disk_key *key,
					  struct profd_disk_value *done)
{
	struct profd_disk_value *value = bpf_map_lookup_elem(table, key);

	if (!value) {
		if (!bpf_map_update_elem(table, key, done, BPF_NOEXIST))
			return true;
		value = bpf_map_lookup_elem(table, key);
	}
	if (!value)
		return false;
	__sync_fetch_and_add(&value->requests, done->requests);
	__sync_fetch_and_add(&value->bytes, done->bytes);
	__sync_fetch_and_add(&value->queue_ns, done->queue_ns);
	__sync_fetch_and_add(&value->service_ns, done->service_ns);
	return true;
}

static __always_inline void count_done(struct profd_disk_request *request, u64 now)
{
	u64 issued = request->issued ? request->issued : request->queued;
	struct profd_disk_value done = {.requests = 1,
					.bytes = request->bytes,
					.queue_ns = issued - request->queued,
					.service_ns = now - issued};
	struct profd_disk_key key = {
		.thread_id = request->thread_id,
		.stack = request->stack,
		.argument = PROFD_DISK_ARGUMENT(request->device, request->operation,
						profd_log2(now - request->queued))};
	u32 *counting = &disk_counting[bpf_get_smp_processor_id() & (PROFD_MAX_CPUS - 1)];
	bool counted;

	/* A full barrier: the daemon sees it before the epoch is read. */
	__sync_fetch_and_add(counting, 1);
	counted = disk_epoch ? count_request(&disk_odd, &key, &done)
			     : count_request(&disk_even, &key, &done);
	__sync_fetch_and_add(counting, -1);
	if (!counted)
		lose(PROFD_LOSS_DISK_LOST, 1);
}

/* Counts a request that is done, and what that cost. */
static __always_inline void finish_request(struct profd_disk_request *request, u64 now)
{
	struct profd_disk_cost *cost;
	u32 zero = 0;

	count_done(request, now);
	cost = bpf_map_lookup_elem(&disk_cost, &zero);
	if (cost)
		cost->done_ns += bpf_ktime_get_ns() - now;
}

/* So many bytes of a request are done. Some drivers complete one in parts. */
SEC("tp_btf/block_rq_complete")
int BPF_PROG(on_disk_completion, struct request___disk *rq, int error, unsigned int bytes)
{
	struct profd_disk_request *request;
	struct profd_disk_request known;
	u64 by_request = (u64)rq;
	u64 key = by_request;
	u64 now;

	request = find_request(rq, &key);
	if (!request) {
		key = by_request;
		request = bpf_map_lookup_elem(&disk_requests, &key);
	}
	if (!request)
		return 0;
	now = bpf_ktime_get_ns();
	known = *request;
	if (!(u8)error)
		known.bytes += bytes;
	bpf_map_delete_elem(&disk_requests, &key);
	if (bytes < rq->__data_len) {
		/* The bios that are done are gone then. */
		if (bpf_map_update_elem(&disk_requests, &by_request, &known, BPF_ANY))
			lose(PROFD_LOSS_DISK_LOST, 1);
		return 0;
	}
	finish_request(&known, now);
	return 0;
}
