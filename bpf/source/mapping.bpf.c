// SPDX-License-Identifier: GPL-2.0-only
/* Address space by stack: private anonymous memory that is mapped, unmapped or given back. In the
 * functions of the target's own libc, in the thread's own context, before the kernel is asked (of
 * madvise: after it was): a call that fails is counted as one that does not.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <linux/mman.h>
#include "abi.h"
#include "probe_cost.bpf.h"
#include "heap_count.bpf.h"
#include "loss.bpf.h"
#include "target.bpf.h"

#define PAGE_SIZE (1ULL << PAGE_SHIFT)
/* No process has more addresses. */
#define MAX_LENGTH (1ULL << 56)
/* Mappings that one call takes away, at most. */
#define MAX_AREAS 64
/* Newer than the headers of some hosts. */
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif

/* Calls that are left out, at random: all but one in mask + 1, which weighs as much more. */
profd_u32 map_skip_mask;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct profd_probe_cost);
} map_cost SEC(".maps");

/* Arguments of a function, in their registers still. */
struct map_arguments {
	u64 first, second, third, fourth;
};

/* All at once: read where they are needed, they would make the compiler compute with `regs`, which
 * no program may.
 */
static __always_inline void read_map_arguments(struct pt_regs *regs,
					       struct map_arguments *arguments)
{
	u64 first = regs->di, second = regs->si, third = regs->dx, fourth = regs->cx;

	barrier_var(first);
	barrier_var(second);
	barrier_var(third);
	barrier_var(fourth);
	arguments->first = first;
	arguments->second = second;
	arguments->third = third;
	arguments->fourth = fourth;
}

/* What a call asks for: so many bytes more, and of private anonymous memory in this range there is
 * none any more, or no page.
 */
struct request {
	u64 gained;
	u64 start, length;
	bool returns; /* the addresses stay */
};

/* Addresses that are looked through, one mapping after another. */
struct range {
	struct task_struct *task;
	u64 at, end;
	u64 anonymous; /* bytes, up to `at` */
	u32 busy;
};

/* A mapping, from an address in it on. */
struct area {
	u64 end;
	u64 anonymous;
};

static long on_area(struct task_struct *task, struct vm_area_struct *vma, struct area *area)
{
	area->end = vma->vm_end;
	area->anonymous = !vma->vm_file;
	return 0;
}

/* 1 ends the search: at the end, and where nothing is mapped. */
static long add_area(u32 index, struct range *range)
{
	struct area area = {};
	long error;

	if (range->at >= range->end)
		return 1;
	error = bpf_find_vma(range->task, range->at, on_area, &area, 0);
	if (error) {
		range->busy = error == -EBUSY;
		return 1;
	}
	if (area.end > range->end)
		area.end = range->end;
	if (area.anonymous)
		range->anonymous += area.end - range->at;
	range->at = area.end;
	return 0;
}

/* How much of a range is private anonymous memory. What cannot be told, as another thread is
 * changing the mappings, is taken for it. Neither static nor inlined, like own_stack_in.
 */
__noinline u64 anonymous_in(u64 start, u64 length)
{
	struct range range = {
		.task = bpf_get_current_task_btf(),
		.at = start,
		.end = start + length,
	};

	if (range.end <= start)
		return 0;
	bpf_loop(MAX_AREAS, add_area, &range, 0);
	if (range.busy) {
		lose(PROFD_LOSS_MAP_BUSY, 1);
		return range.anonymous + (range.end - range.at);
	}
	return range.anonymous;
}

/* Up to whole pages; 0 for what the kernel refuses. */
static __always_inline u64 whole_pages(u64 length)
{
	return length > MAX_LENGTH ? 0 : (length + PAGE_SIZE - 1) & ~(PAGE_SIZE - 1);
}

static __always_inline void read_mmap(struct map_arguments *arguments, struct request *request)
{
	u64 length = whole_pages(arguments->second);
	u32 flags = (u32)arguments->fourth;

	if (flags & MAP_ANONYMOUS && (flags & MAP_TYPE) == MAP_PRIVATE)
		request->gained = length;
	/* In the place of what was there. */
	if (flags & MAP_FIXED) {
		request->start = arguments->first;
		request->length = length;
	}
}

static __always_inline void read_mremap(struct map_arguments *arguments, struct request *request)
{
	u64 before = whole_pages(arguments->second);
	u64 after = whole_pages(arguments->third);

	if (!before || !after)
		return;
	if (after < before) {
		request->start = arguments->first + after;
		request->length = before - after;
		return;
	}
	if (arguments->fourth & MREMAP_DONTUNMAP)
		before = 0;
	if (after > before && anonymous_in(arguments->first, PAGE_SIZE))
		request->gained = after - before;
}

static __always_inline void read_brk(struct task_struct *task, struct map_arguments *arguments,
				     struct request *request)
{
	struct mm_struct *mm = untrusted(task)->mm;
	u64 before = whole_pages(mm->brk);
	u64 after = whole_pages(arguments->first);

	/* 0 asks where it is. */
	if (arguments->first < mm->start_brk)
		return;
	if (after >= before) {
		request->gained = after - before;
	} else {
		request->start = after;
		request->length = before - after;
	}
}

static __always_inline void read_range(struct map_arguments *arguments, struct request *request)
{
	request->start = arguments->first;
	request->length = whole_pages(arguments->second);
}

static __always_inline void read_request(struct pt_regs *regs, struct task_struct *task, u32 call,
					 struct request *request)
{
	struct map_arguments arguments;
	u64 advice;

	read_map_arguments(regs, &arguments);
	advice = (u32)arguments.third;
	if (call == PROFD_MAP_MMAP) {
		read_mmap(&arguments, request);
	} else if (call == PROFD_MAP_MUNMAP) {
		read_range(&arguments, request);
	} else if (call == PROFD_MAP_MREMAP) {
		read_mremap(&arguments, request);
	} else if (call == PROFD_MAP_BRK) {
		read_brk(task, &arguments, request);
	} else if (call == PROFD_MAP_MADVISE && (advice == MADV_DONTNEED || advice == MADV_FREE ||
						 advice == MADV_DONTNEED_LOCKED)) {
		read_range(&arguments, request);
		request->returns = true;
	}
}

/* Walks from the call and counts the stack. False when there is no memory for it. */
static __always_inline bool count_call(struct pt_regs *regs, struct profd_thread *thread, u8 kind,
				       u64 bytes, u32 one_in)
{
	struct profd_sample_key key = {.sysno = -1, .kind = kind, .arg0 = one_in};
	enum heap_count outcome;

	if (!make_known(thread))
		return false;
	key.thread_id = thread->thread_id;
	outcome = count_heap(regs, &key, true, bytes * one_in);
	if (outcome != HEAP_COUNTED)
		lose(PROFD_LOSS_MAP_LOST, 1);
	return outcome != HEAP_BUSY;
}

/* True when a stack was taken. */
static __always_inline bool handle_call(struct pt_regs *regs, struct task_struct *task,
					struct profd_thread *thread, u32 call)
{
	u32 mask = map_skip_mask;
	struct request request = {};
	u64 gone = 0, bytes;
	u8 kind;

	if (mask && bpf_get_prandom_u32() & mask)
		return false;
	read_request(regs, task, call, &request);
	if (request.length)
		gone = anonymous_in(request.start, request.length);
	if (request.gained == gone)
		return false;
	if (request.gained > gone) {
		kind = PROFD_KIND_MAPPED;
		bytes = request.gained - gone;
	} else {
		kind = request.returns ? PROFD_KIND_RETURNED : PROFD_KIND_UNMAPPED;
		bytes = gone - request.gained;
	}
	return count_call(regs, thread, kind, bytes, mask + 1);
}

/* In the functions of enum profd_map_call, of a libc. */
SEC("uprobe")
int on_map_call(struct pt_regs *regs)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct profd_thread *thread = thread_of(task);
	u64 began, cookie;
	bool walked;

	if (!thread || !thread->thread_id)
		return 0;
	began = bpf_ktime_get_ns();
	cookie = bpf_get_attach_cookie(regs);
	walked = handle_call(regs, task, thread, PROFD_PROBE_PLACE(cookie));
	add_probe_cost(&map_cost, began, PROFD_PROBE_STEPPED(cookie), walked);
	return 0;
}
