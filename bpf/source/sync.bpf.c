// SPDX-License-Identifier: GPL-2.0-only
/* Calls that return when written data has reached the disk, by thread, stack and file; a part of
 * the source `disk`. A sync is rare and takes long, so each one is counted.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "abi.h"
#include "current_walk.bpf.h"
#include "kernel_frames.bpf.h"
#include "loss.bpf.h"
#include "object.bpf.h"
#include "own_walk.bpf.h"
#include "target.bpf.h"

#define MS_SYNC 4
#define SYS_MSYNC 26
#define SYS_FSYNC 74
#define SYS_FDATASYNC 75

/* Calls of targets that have not returned, by thread. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, u64);
	__type(value, struct profd_open_sync);
} open_syncs SEC(".maps");

/* How many calls sync a file now, by the address of its inode. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, u64);
	__type(value, u32);
} synced_files SEC(".maps");

/* Memory for descriptions of files; as many as own_scratch. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct object_scratch);
} sync_scratch SEC(".maps");

/* Returns whether another call syncs this file. */
static __always_inline bool enter_file(u64 inode)
{
	u32 one = 1;
	u32 *calls = bpf_map_lookup_elem(&synced_files, &inode);

	if (!calls) {
		if (!bpf_map_update_elem(&synced_files, &inode, &one, BPF_NOEXIST))
			return false;
		calls = bpf_map_lookup_elem(&synced_files, &inode);
	}
	return calls && __sync_fetch_and_add(calls, 1) > 0;
}

static __always_inline void leave_file(u64 inode)
{
	u32 *calls = bpf_map_lookup_elem(&synced_files, &inode);

	if (calls && __sync_fetch_and_add(calls, -1) <= 1)
		bpf_map_delete_elem(&synced_files, &inode);
}

/* Describes a file and sends the description. Neither static nor inlined, like own_stack_in. */
__noinline u64 note_synced_file(u32 slot, u64 file)
{
	struct object_scratch *scratch = bpf_map_lookup_elem(&sync_scratch, &slot);
	struct profd_object *object;
	struct profd_stack_record *record;

	if (!scratch)
		return PROFD_OBJECT_BIT;
	object = object_in(scratch);
	if (bpf_probe_read_kernel(object, sizeof(*object), object_zeros))
		return PROFD_OBJECT_BIT;
	object->kind = PROFD_OBJECT_FILE;
	finish_object(scratch, read_path((struct file *)file, &scratch->text));
	record = &scratch->record;
	record->hash = PROFD_SYNC_FILE(record->hash);
	if (!bpf_map_lookup_elem(&known_stacks, &record->hash) &&
	    (!spend(&objects_paid, PROFD_OBJECT_BURST, 1000000000 / PROFD_OBJECTS_A_SECOND) ||
	     !intern_stack(record))) {
		lose(PROFD_LOSS_OBJECT, 1);
		return PROFD_OBJECT_BIT;
	}
	return record->hash;
}

static long on_synced_area(struct task_struct *task, struct vm_area_struct *vma, u64 *file)
{
	/* As a number: 6.1 passes no pointer to a function that is not inlined. */
	bpf_core_read(file, sizeof(*file), &vma->vm_file);
	return 0;
}

/* Somebody changes the memory map: nobody can look now. */
#define FILE_BUSY 1

/* The file that is mapped there; 0: none. Or FILE_BUSY. */
static __always_inline u64 file_at(struct task_struct *task, u64 address)
{
	u64 file = 0;

	if (bpf_find_vma(task, address, on_synced_area, &file, 0) == -EBUSY)
		return FILE_BUSY;
	return file;
}

/* Takes the stack and the file of a call; FILE_BUSY: nobody knows it. */
static __always_inline void describe_sync(struct profd_open_sync *sync, u64 file,
					  struct profd_disk_cost *cost, u64 began)
{
	struct walk *walk;
	u32 slot;

	walk = take_walk(&slot);
	if (!walk)
		return;
	if (file != FILE_BUSY)
		sync->argument |= note_synced_file(slot, file);
	else
		lose(PROFD_LOSS_OBJECT, 1);
	if (disk_stack_one_in <= 1 || bpf_get_prandom_u32() % disk_stack_one_in == 0) {
		begin_after_kernel(walk, 0);
		walk->hurried = 1;
		walk_submitter(slot);
		sync->stack = send_walk(walk, 0);
		cost->walks++;
	}
	drop_walk(slot);
	cost->walk_ns += bpf_ktime_get_ns() - began;
}

/* A thread begins to sync a file, which may be FILE_BUSY: then end_sync finds out. */
static __always_inline void begin_sync(struct profd_thread *thread, u64 file, u32 call, u64 began)
{
	struct profd_open_sync sync = {.argument = PROFD_OBJECT_BIT | (u64)(call & 7) << 8};
	u64 id = thread->thread_id;
	struct profd_open_sync *left;
	struct profd_disk_cost *cost;
	u32 zero = 0;

	cost = bpf_map_lookup_elem(&disk_cost, &zero);
	left = bpf_map_lookup_elem(&open_syncs, &id);
	if (left) {
		/* Nobody saw its end. */
		leave_file(left->inode);
		lose(PROFD_LOSS_DISK_LOST, 1);
	}
	if (cost)
		cost->requests++;
	if (file != FILE_BUSY) {
		if (cost)
			describe_sync(&sync, file, cost, began);
		sync.inode = (u64)FIELD(file, file, f_inode);
		if (enter_file(sync.inode))
			sync.argument |= PROFD_SYNC_JOINED;
	}
	/* Last: what we cost is not part of it. */
	sync.began = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&open_syncs, &id, &sync, BPF_ANY)) {
		leave_file(sync.inode);
		lose(PROFD_LOSS_DISK_LOST, 1);
	}
}

/* Of a descriptor, or of what is mapped at an address. Neither static nor inlined, like
 * own_stack_in.
 */
__noinline int begin_call(u64 place, u32 call)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct profd_thread *thread = thread_of(task);
	u64 began, file;

	if (!thread || !thread->thread_id || !make_known(thread))
		return 0;
	began = bpf_ktime_get_ns();
	file = call == PROFD_SYNC_MSYNC ? file_at(task, place) : (u64)file_of(task, place);
	if (file)
		begin_sync(thread, file, call, began);
	return 0;
}

/* A call has ended. At the address is the file, if it was not known at its begin: the call has
 * waited for whoever changed the map. Neither static nor inlined, as above.
 */
__noinline int end_sync(u64 result, u64 address)
{
	struct profd_thread *thread = thread_of(bpf_get_current_task_btf());
	struct profd_disk_value done = {.requests = 1};
	struct profd_disk_key key = {};
	struct profd_open_sync *sync;
	struct profd_disk_cost *cost;
	u64 now, id, file, began;
	u32 zero = 0;

	if (!thread || !thread->thread_id)
		return 0;
	id = thread->thread_id;
	sync = bpf_map_lookup_elem(&open_syncs, &id);
	if (!sync)
		return 0;
	began = now = bpf_ktime_get_ns();
	cost = bpf_map_lookup_elem(&disk_cost, &zero);
	if (!sync->inode) {
		file = file_at(bpf_get_current_task_btf(), address);
		if (!file) {
			bpf_map_delete_elem(&open_syncs, &id);
			return 0;
		}
		if (cost)
			describe_sync(sync, file, cost, now);
		began = bpf_ktime_get_ns();
	}
	done.service_ns = now - sync->began;
	key.thread_id = id;
	key.stack = sync->stack;
	key.argument = sync->argument | profd_log2(done.service_ns);
	if ((s64)result < 0)
		key.argument |= PROFD_SYNC_FAILED;
	leave_file(sync->inode);
	bpf_map_delete_elem(&open_syncs, &id);
	count_in_epoch(&key, &done);
	if (cost)
		cost->done_ns += bpf_ktime_get_ns() - began;
	return 0;
}

/* Where the kernel lets programs in at functions: each system call. */
#define SYNC_PROGRAMS(name, call)                                                                  \
	SEC("fentry/__x64_sys_" #name)                                                             \
	int BPF_PROG(on_##name, struct pt_regs *regs)                                              \
	{                                                                                          \
		return begin_call((u32)regs->di, call);                                            \
	}                                                                                          \
	SEC("fexit/__x64_sys_" #name)                                                              \
	int BPF_PROG(on_##name##_end, struct pt_regs *regs, long result)                           \
	{                                                                                          \
		return end_sync(result, 0);                                                        \
	}

SYNC_PROGRAMS(fsync, PROFD_SYNC_FSYNC)
SYNC_PROGRAMS(fdatasync, PROFD_SYNC_FDATASYNC)
SYNC_PROGRAMS(sync_file_range, PROFD_SYNC_RANGE)
SYNC_PROGRAMS(syncfs, PROFD_SYNC_FS)

SEC("fentry/__x64_sys_msync")
int BPF_PROG(on_msync, struct pt_regs *regs)
{
	/* Without it nothing is written. */
	if (!(regs->dx & MS_SYNC) || !regs->si)
		return 0;
	return begin_call(regs->di, PROFD_SYNC_MSYNC);
}

SEC("fexit/__x64_sys_msync")
int BPF_PROG(on_msync_end, struct pt_regs *regs, long result)
{
	return end_sync(result, regs->di);
}

/* Elsewhere: ext4's tracepoints, in the first three calls. */
SEC("raw_tp/ext4_sync_file_enter")
int BPF_PROG(on_ext4_sync, struct file *file, int data_only)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct profd_thread *thread = thread_of(task);
	struct pt_regs *regs;
	u32 call;

	if (!thread || !thread->thread_id || !make_known(thread) ||
	    task->flags & (PF_KTHREAD | PF_IO_WORKER | PF_USER_WORKER))
		return 0;
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	switch (regs->orig_ax) {
	case SYS_FSYNC:
		call = PROFD_SYNC_FSYNC;
		break;
	case SYS_FDATASYNC:
		call = PROFD_SYNC_FDATASYNC;
		break;
	case SYS_MSYNC:
		call = PROFD_SYNC_MSYNC;
		break;
	default: /* such as a write to a file that was opened with O_SYNC */
		return 0;
	}
	begin_sync(thread, (u64)file, call, bpf_ktime_get_ns());
	return 0;
}

SEC("raw_tp/ext4_sync_file_exit")
int BPF_PROG(on_ext4_sync_end, struct inode *inode, int result)
{
	return end_sync((s64)result, 0);
}
