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
#include "untrusted.bpf.h"

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

/* Requests and file syncs that are done, in two epochs. */
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

/* By device. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PROFD_DISK_DEVICES);
	__type(key, u32);
	__type(value, struct profd_disk_flight);
} disk_flights SEC(".maps");

/* Number of the present drain. Set by the daemon. */
profd_u32 disk_drain;

static __always_inline u32 device_of(struct bio *bio)
{
	return untrusted_as(struct bio, bio)->bi_bdev->bd_dev;
}

static __always_inline struct bio *first_bio(struct request___disk *rq)
{
	return untrusted_as(struct request___disk, rq)->bio;
}

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

/* Neither static nor inlined, like own_stack_in. */
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

/* One more request is with the driver. */
static __always_inline void enter_device(struct profd_disk_request *request)
{
	struct profd_disk_flight none = {};
	struct profd_disk_flight *flight;
	u32 device = request->device;
	u64 peak, before, seen;

	flight = bpf_map_lookup_elem(&disk_flights, &device);
	if (!flight) {
		bpf_map_update_elem(&disk_flights, &device, &none, BPF_NOEXIST);
		flight = bpf_map_lookup_elem(&disk_flights, &device);
	}
	if (!flight)
		return;
	peak = (u64)disk_drain << 32 | (__sync_fetch_and_add(&flight->requests, 1) + 1);
	before = *(volatile u64 *)&flight->peak;
	/* Another CPU may raise it meanwhile; a second one at once is left out. */
#pragma unroll
	for (int i = 0; i < 2; i++) {
		if (peak <= before)
			return;
		seen = __sync_val_compare_and_swap(&flight->peak, before, peak);
		if (seen == before) {
			flight->thread_id = request->thread_id;
			return;
		}
		before = seen;
	}
}

static __always_inline void leave_device(struct profd_disk_request *request)
{
	u32 device = request->device;
	struct profd_disk_flight *flight;

	if (!request->issued)
		return;
	flight = bpf_map_lookup_elem(&disk_flights, &device);
	if (flight)
		__sync_fetch_and_add(&flight->requests, -1);
}

/* Drops what is left of a request whose completion nobody saw. */
static __always_inline void drop_leftover(u64 key)
{
	struct profd_disk_request *left = bpf_map_lookup_elem(&disk_requests, &key);

	if (!left)
		return;
	leave_device(left);
	bpf_map_delete_elem(&disk_requests, &key);
	lose(PROFD_LOSS_DISK_LOST, 1);
}

static __always_inline u64 end_of(struct bio *bio)
{
	return bio->bi_iter.bi_sector + (bio->bi_iter.bi_size >> 9);
}

/* Where the thread's last request like this one ended. NULL: only reads and writes are in a place.
 */
static __always_inline struct profd_disk_end *last_end(struct profd_thread *thread, u32 operation)
{
	switch (operation) {
	case PROFD_DISK_READ:
		return &thread->disk_ends[0];
	case PROFD_DISK_WRITE:
		return &thread->disk_ends[1];
	}
	return NULL;
}

/* Whether a request begins where the last one ended. The next one is compared with this one. */
static __always_inline bool is_sequential(struct profd_thread *thread, struct bio *bio,
					  struct profd_disk_request *request)
{
	struct profd_disk_end *end = last_end(thread, request->operation);
	bool sequential;

	if (!end)
		return false;
	sequential = end->device == request->device && end->sector == bio->bi_iter.bi_sector;
	end->device = request->device;
	end->sector = end_of(bio);
	return sequential;
}

/* A bio becomes the end of a request that was made before. */
SEC("tp_btf/block_bio_backmerge")
int BPF_PROG(on_disk_growth, struct bio *bio)
{
	struct profd_thread *thread = thread_of(bpf_get_current_task_btf());
	struct profd_disk_end *end;

	if (!thread)
		return 0;
	end = last_end(thread, operation_of(bio));
	if (end && end->device == device_of(bio) && end->sector == bio->bi_iter.bi_sector)
		end->sector = end_of(bio);
	return 0;
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

	/* Its completion would be taken for that of this one. */
	drop_leftover(key);
	if (!thread || !thread->thread_id || !make_known(thread))
		return 0;
	cost = bpf_map_lookup_elem(&disk_cost, &zero);
	if (!cost)
		return 0;
	request.queued = bpf_ktime_get_ns();
	request.thread_id = thread->thread_id;
	request.device = device_of(bio);
	request.operation = operation_of(bio);
	request.sequential = is_sequential(thread, bio, &request);
	one_in = disk_stack_one_in;
	if (one_in <= 1 || bpf_get_prandom_u32() % one_in == 0) {
		request.stack = take_submitter_stack(ctx);
		walked = bpf_ktime_get_ns() - request.queued;
		cost->walks++;
		cost->walk_ns += walked;
	}
	if (bpf_map_update_elem(&disk_requests, &key, &request, BPF_ANY))
		lose(PROFD_LOSS_DISK_LOST, 1);
	cost->requests++;
	cost->ns += bpf_ktime_get_ns() - request.queued - walked;
	return 0;
}

/* The request that began with one of these bios. */
static __always_inline struct profd_disk_request *find_request(struct request___disk *rq, u64 *key)
{
	struct profd_disk_request *found = NULL;
	struct bio *bio = first_bio(rq);

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

	if (request && !request->issued) {
		request->issued = bpf_ktime_get_ns();
		enter_device(request);
	}
	return 0;
}

/* All of a request becomes a part of another one, which has it counted. */
SEC("tp_btf/block_rq_merge")
int BPF_PROG(on_disk_merge, struct request___disk *rq)
{
	u64 key = (u64)first_bio(rq);

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

/* Counts what is done in the live epoch. */
static __always_inline void count_in_epoch(struct profd_disk_key *key,
					   struct profd_disk_value *done)
{
	u32 *counting = &disk_counting[bpf_get_smp_processor_id() & (PROFD_MAX_CPUS - 1)];
	bool counted;

	/* A full barrier: the daemon sees it before the epoch is read. */
	__sync_fetch_and_add(counting, 1);
	counted = disk_epoch ? count_request(&disk_odd, key, done)
			     : count_request(&disk_even, key, done);
	__sync_fetch_and_add(counting, -1);
	if (!counted)
		lose(PROFD_LOSS_DISK_LOST, 1);
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

	if (request->sequential)
		key.argument |= PROFD_DISK_SEQUENTIAL;
	count_in_epoch(&key, &done);
}

/* Counts a request that is done, and what that cost. */
static __always_inline void finish_request(struct profd_disk_request *request, u64 now)
{
	struct profd_disk_cost *cost;
	u32 zero = 0;

	leave_device(request);
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
