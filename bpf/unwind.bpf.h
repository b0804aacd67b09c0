/* The walker of user stacks. Uses .eh_frame rules, and frame pointers only where there are no
 * rules.
 *
 * One walker for two contexts. WALK_OUTSIDE reads another thread's stack (sleepable programs, the
 * tick). WALK_OWN reads the current thread's stack (probes). `from` is a constant at every call, so
 * each program contains only one of them.
 */
#ifndef PROFD_BPF_UNWIND_BPF_H_
#define PROFD_BPF_UNWIND_BPF_H_

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "abi.h"
#include "modules.bpf.h"

enum walk_from {
	WALK_OUTSIDE,
	WALK_OWN,
};

#define STACK_PAGE 4096
#define RULE_CACHE 512
#define MAPPING_CACHE 256
#define MAPPING_REGION_BITS 16 /* an entry for each 64 KiB: a large library has several */
#define BUSY_LOOKUPS 200 /* about 15 us; a change of mappings usually holds the lock for less */
#define MAX_FRAME_POINTER_STEP (1 << 20)
#define TRUSTED_LOOKUPS 8 /* in an interrupt; one of them is checked */

/* Registers in an x86-64 signal frame, from the stack pointer at the handler's return. */
#define SIGNAL_RBP 0x78
#define SIGNAL_RSP 0xa0
#define SIGNAL_RIP 0xa8

/* A cached mapping, valid while the mappings of its address space do not change. */
enum cached_kind {
	CACHED_CODE = 1,
	CACHED_MEMORY = 2, /* anonymous memory: reading it does not block */
};
struct cached_mapping {
	u64 space; /* walk.space */
	u64 start, end, file_offset;
	u32 changes; /* of the address space at lookup */
	u32 module_id;
	u32 rows;
	u8 state;
	u8 kind;
	u8 pad[2];
};

/* Where a walk looks for a mapping that another one found. */
struct mapping_place {
	u64 space; /* walk.space */
	u64 region;
};
struct shared_mapping {
	struct cached_mapping mapping;
	u64 check; /* its memory may be given to another entry while it is read */
};

/* Mappings that any walk found. In an interrupt the kernel tells one mapping only: the rest comes
 * from here.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct mapping_place);
	__type(value, struct shared_mapping);
} shared_mappings SEC(".maps") __weak;

/* State of one walk, in a map value, so that the verifier need not track it. */
struct walk {
	u64 pc, sp, fp;
	u64 hash;
	u64 switches; /* of the thread at the start: it must not run during the walk */
	u64 window_start; /* address of window[0] */
	u64 window_size; /* bytes valid */
	u64 space; /* identifies the address space */
	u64 bottom; /* stack pointer at the start; nothing below it is read */
	u64 map_start, map_end, map_offset; /* mapping of the last frame */
	u32 map_module, map_state, map_rows;
	u32 frames; /* kernel and user */
	u8 result; /* enum profd_walk */
	u8 exact; /* pc is an instruction, not a return address */
	u8 frame_pointers;
	u8 torn; /* the thread ran during the walk */
	u8 map_busy; /* stack memory could not be looked up: the map was locked */
	u8 hurried; /* do not retry if the map is locked */
	u8 in_interrupt; /* the kernel tells one mapping only */
	u8 at_entry; /* pc is a function's first instruction */
	struct mapping_place place; /* of `shared`; here, because little BPF stack is left */
	struct shared_mapping shared; /* a copy */
	struct profd_stack_record record;
	u64 window[STACK_PAGE / 8]; /* part of the stack, read on demand */
	/* Rules found before, by frame: code repeats, and each step of a search is a cache miss. */
	struct {
		u64 frame;
		u64 rule;
	} rules[RULE_CACHE];
	struct cached_mapping mappings[MAPPING_CACHE];
};

/* A walk of a task's stack. Small, because it is on the BPF stack. */
struct walker {
	struct task_struct *task;
	struct walk *walk;
};

static __always_inline u64 mix(u64 hash, u64 value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
	return hash ^ (hash >> 29);
}

/* Completes the record of a walked stack. */
static __always_inline void finish_stack(struct walk *walk, u32 kernel_frames)
{
	struct profd_stack_record *record = &walk->record;

	record->kernel_frames = kernel_frames;
	record->user_frames = walk->frames - kernel_frames;
	record->walk = walk->result;
	record->frame_pointers = walk->frame_pointers;
	record->hash = mix(mix(walk->hash, kernel_frames), walk->result) | 1;
}

/* A stack without frames, with only the reason. */
static __always_inline void empty_stack(struct profd_stack_record *record, u8 result)
{
	record->kernel_frames = 0;
	record->user_frames = 0;
	record->frame_pointers = 0;
	record->walk = result;
	record->hash = mix(0, result) | 1;
}

/* The thread has not run since the walk began, so everything read is consistent. */
static __always_inline bool still_waits(struct walker *walker)
{
	barrier();
	return !walker->task->on_cpu && switches_of(walker->task) == walker->walk->switches;
}

#define NO_COUNT 0xffffffffU

/* How often the mappings of a thread's process have changed. NO_COUNT during a change, or if the
 * kernel does not count.
 */
static __always_inline u32 changes_of(struct task_struct *task)
{
	struct mm_struct *mm = untrusted(task)->mm;
	u32 changes = NO_COUNT;

	if (bpf_core_field_exists(struct mm_struct___seqcount, mm_lock_seq)) {
		changes = ((volatile struct mm_struct___seqcount *)mm)->mm_lock_seq.sequence;
		if (changes & 1)
			changes = NO_COUNT;
	} else if (bpf_core_field_exists(struct mm_struct___count, mm_lock_seq)) {
		changes = ((volatile struct mm_struct___count *)mm)->mm_lock_seq;
	}
	return changes;
}

/* Identifies the address space of one program. The pointer alone is not enough: it is reused. */
static __always_inline void name_space(struct walk *walk, struct task_struct *task)
{
	volatile u64 *space = &walk->space;

	/* Through memory: the verifier does not allow arithmetic on a pointer. */
	*space = (u64)untrusted(task)->mm;
	*space =
		mix(mix(*space, untrusted(task)->group_leader->start_time), task->self_exec_id) | 1;
}

static __always_inline struct cached_mapping *cached_mapping(struct walk *walk, u64 address)
{
	u32 slot = (u32)(mix(walk->space, address >> MAPPING_REGION_BITS) >> 32);

	barrier_var(slot); /* the mask comes last, where the verifier sees it */
	return &walk->mappings[slot & (MAPPING_CACHE - 1)];
}

static __always_inline bool is_cached(struct walk *walk, struct cached_mapping *entry, u8 kind,
				      u64 address)
{
	return entry->space == walk->space && entry->kind == kind && address >= entry->start &&
	       address < entry->end;
}

/* The entry is still valid. */
static __always_inline bool is_current(struct cached_mapping *entry, u32 changes)
{
	return changes != NO_COUNT && entry->changes == changes;
}

struct memory_mapping {
	u64 usable;
	u64 start;
	u64 end;
};

static long on_anonymous_vma(struct task_struct *task, struct vm_area_struct *vma,
			     struct memory_mapping *mapping)
{
	mapping->usable = !vma->vm_file && !(vma->vm_flags & VM_UFFD_MISSING);
	mapping->start = vma->vm_start;
	mapping->end = vma->vm_end;
	return 0;
}

/* Pages that come from a file or from another process could block the reader forever. Stacks and
 * heaps are anonymous. `busy`, if given, is set if the map was locked.
 */
static __always_inline bool is_readable(struct task_struct *task, u64 address, u8 *busy,
					struct memory_mapping *mapping)
{
	long error = bpf_find_vma(task, address, on_anonymous_vma, mapping, 0);

	if (busy && error == -16 /* EBUSY */)
		*busy = 1;
	return !error && mapping->usable;
}

/* The same, with the cache. */
static __always_inline bool is_readable_memory(struct walker *walker, u64 address)
{
	struct walk *walk = walker->walk;
	struct cached_mapping *entry = cached_mapping(walk, address);
	u32 changes = changes_of(walker->task);
	struct memory_mapping mapping = {};

	if (is_current(entry, changes) && is_cached(walk, entry, CACHED_MEMORY, address))
		return true;
	if (!is_readable(walker->task, address, &walk->map_busy, &mapping))
		return false;
	if (changes_of(walker->task) != changes)
		return true;
	entry->space = walk->space;
	entry->start = mapping.start;
	entry->end = mapping.end;
	entry->changes = changes;
	entry->kind = CACHED_MEMORY;
	return true;
}

/* Reads the stack from `start` to the end of its page: a page is present or not. */
static __always_inline bool fill_window(struct walker *walker, u64 start)
{
	struct walk *walk = walker->walk;
	u64 size = STACK_PAGE - (start & (STACK_PAGE - 1));

	barrier_var(size);
	walk->window_size = 0;
	if (size > STACK_PAGE || !is_readable_memory(walker, start) ||
	    bpf_copy_from_user_task(walk->window, size, (void *)start, walker->task, 0))
		return false;
	walk->window_start = start;
	walk->window_size = size;
	if (still_waits(walker))
		return true;
	walk->torn = 1;
	return false;
}

static __always_inline bool read_stack(struct walker *walker, u64 address, u64 *word,
				       enum walk_from from)
{
	struct walk *walk = walker->walk;
	u64 start;

	if (address & 7)
		return false;
	if (from == WALK_OWN)
		return !bpf_probe_read_user(word, sizeof(*word), (void *)address);
	if (address - walk->window_start >= walk->window_size) {
		/* By pages, so that a frame of any size costs one read. */
		start = address & ~(u64)(STACK_PAGE - 1);
		if (start < walk->bottom && walk->bottom <= address)
			start = walk->bottom;
		if (walk->torn || !fill_window(walker, start))
			return false;
	}
	*word = walk->window[((address - walk->window_start) >> 3) & (STACK_PAGE / 8 - 1)];
	return true;
}

static long on_vma(struct task_struct *task, struct vm_area_struct *vma, struct mapping *mapping)
{
	describe_mapping(vma, mapping);
	return 0;
}

/* A mapping lookup that is retried while others hold the lock. Small, because little of the BPF
 * stack is left.
 */
struct lookup {
	struct walker *walker;
	struct mapping *mapping;
	s64 address; /* afterwards the error, if any */
};

static long look_again(u32 index, struct lookup *lookup)
{
	long error =
		bpf_find_vma(lookup->walker->task, lookup->address, on_vma, lookup->mapping, 0);

	if (error == -16 /* EBUSY */ && index + 1 < BUSY_LOOKUPS)
		return 0;
	lookup->address = error;
	return 1;
}

/* Continues with a cached mapping. */
static __always_inline void use_mapping(struct walk *walk, struct cached_mapping *entry)
{
	walk->map_start = entry->start;
	walk->map_end = entry->end;
	walk->map_offset = entry->file_offset;
	walk->map_module = entry->module_id;
	walk->map_state = entry->state;
	walk->map_rows = entry->rows;
}

static __always_inline u64 check_mapping(struct cached_mapping *entry)
{
	u64 sum = mix(mix(mix(entry->space, entry->start), entry->end), entry->file_offset);

	return mix(mix(sum, (u64)entry->changes << 32 | entry->module_id),
		   (u64)entry->rows << 32 | entry->state);
}

/* What another walk found. It may be older than the last change. */
static __always_inline bool find_shared(struct walk *walk, u64 address)
{
	struct shared_mapping *found;

	walk->place.space = walk->space;
	walk->place.region = address >> MAPPING_REGION_BITS;
	found = bpf_map_lookup_elem(&shared_mappings, &walk->place);
	if (!found)
		return false;
	walk->shared = *found;
	return is_cached(walk, &walk->shared.mapping, CACHED_CODE, address) &&
	       walk->shared.check == check_mapping(&walk->shared.mapping);
}

/* Caches the mapping that was just found, unless the mappings have changed since. `walk->place` is
 * where it was looked for.
 */
static __always_inline void cache_mapping(struct walker *walker, struct cached_mapping *entry,
					  u32 changes)
{
	struct walk *walk = walker->walk;

	if (walk->map_state == PROFD_MODULE_PENDING || changes_of(walker->task) != changes)
		return;
	entry->space = walk->space;
	entry->start = walk->map_start;
	entry->end = walk->map_end;
	entry->file_offset = walk->map_offset;
	entry->changes = changes;
	entry->module_id = walk->map_module;
	entry->rows = walk->map_rows;
	entry->state = walk->map_state;
	entry->kind = CACHED_CODE;
	/* Without room, or while another walk writes, it is found again. */
	walk->shared.mapping = *entry;
	walk->shared.check = check_mapping(entry);
	bpf_map_update_elem(&shared_mappings, &walk->place, &walk->shared, BPF_ANY);
}

/* Finds the mapping of an address. False ends the walk; walk->result says why. */
static __always_inline bool locate(struct walker *walker, u64 address)
{
	struct walk *walk = walker->walk;
	struct cached_mapping *entry = cached_mapping(walk, address);
	u32 changes = changes_of(walker->task);
	struct mapping mapping = {};
	struct profd_module *module;
	bool local, shared;
	long error;

	if (address >= walk->map_start && address < walk->map_end)
		return true;
	local = is_cached(walk, entry, CACHED_CODE, address);
	if (local && is_current(entry, changes)) {
		use_mapping(walk, entry);
		return true;
	}
	shared = find_shared(walk, address);
	if (shared && is_current(&walk->shared.mapping, changes)) {
		*entry = walk->shared.mapping;
		use_mapping(walk, entry);
		return true;
	}
	/* Where the kernel does not count changes, an interrupt saves its one question for a
	 * mapping that nobody found yet. Otherwise the innermost one would use it up each time.
	 */
	if (walk->in_interrupt && changes == NO_COUNT && (local || shared) &&
	    bpf_get_prandom_u32() % TRUSTED_LOOKUPS)
		error = -16;
	else
		error = bpf_find_vma(walker->task, address, on_vma, &mapping, 0);
	/* The map is locked. A cached entry may be older than the last change, but it is wrong
	 * only if other code was mapped in its place.
	 */
	if (error == -16 /* EBUSY */ && local) {
		use_mapping(walk, entry);
		return true;
	}
	if (error == -16 /* EBUSY */ && shared) {
		use_mapping(walk, &walk->shared.mapping);
		return true;
	}
	if (error == -16 /* EBUSY */ && !walk->hurried) {
		struct lookup lookup = {
			.walker = walker,
			.mapping = &mapping,
			.address = address,
		};

		bpf_loop(BUSY_LOOKUPS, look_again, &lookup, 0);
		error = lookup.address;
	}
	if (error) {
		walk->result =
			error == -16 /* EBUSY */ ? PROFD_WALK_MAP_BUSY : PROFD_WALK_NOT_MAPPED;
		return false;
	}
	walk->map_start = mapping.start;
	walk->map_end = mapping.end;
	walk->map_offset = mapping.file_offset;
	walk->map_module = 0;
	walk->map_state = PROFD_MODULE_NO_RULES;
	walk->map_rows = 0;
	if (mapping.key.ino) {
		module = module_of(walker->task, &mapping);
		if (module) {
			walk->map_module = module->module_id;
			walk->map_state = module->state;
			walk->map_rows = module->rows;
		}
	}
	cache_mapping(walker, entry, changes);
	return true;
}

/* find_rule with a cache. A module's rules never change once it is ready. */
static __always_inline u32 recall_rule(struct walk *walk, u64 offset)
{
	u64 frame = offset | ((u64)walk->map_module << PROFD_FRAME_MODULE_SHIFT);
	u32 slot = (u32)(mix(0, frame) >> 32);
	u32 rule;

	barrier_var(slot); /* the mask comes last, where the verifier sees it */
	slot &= RULE_CACHE - 1;
	if (walk->rules[slot].frame == frame)
		return (u32)walk->rules[slot].rule;
	rule = find_rule(walk->map_module, walk->map_rows, offset);
	walk->rules[slot].frame = frame;
	walk->rules[slot].rule = rule;
	return rule;
}

/* Steps to the caller by the frame pointer, for code without rules. */
static __always_inline bool step_by_frame_pointer(struct walker *walker, enum walk_from from)
{
	struct walk *walk = walker->walk;
	u64 fp = walk->fp;
	u64 caller_fp, pc;

	if (fp < walk->sp || fp - walk->sp > MAX_FRAME_POINTER_STEP || fp & 7 ||
	    !read_stack(walker, fp, &caller_fp, from) || !read_stack(walker, fp + 8, &pc, from)) {
		walk->result = PROFD_WALK_NO_RULE;
		return false;
	}
	walk->fp = caller_fp;
	walk->sp = fp + 16;
	walk->pc = pc;
	walk->exact = 0;
	if (walk->frame_pointers < 255)
		walk->frame_pointers++;
	return true;
}

static __always_inline bool step_over_signal(struct walker *walker, enum walk_from from)
{
	struct walk *walk = walker->walk;
	u64 sp = walk->sp;
	u64 pc, fp, next;

	if (!read_stack(walker, sp + SIGNAL_RBP, &fp, from) ||
	    !read_stack(walker, sp + SIGNAL_RSP, &next, from) ||
	    !read_stack(walker, sp + SIGNAL_RIP, &pc, from)) {
		walk->result = PROFD_WALK_UNREADABLE;
		return false;
	}
	/* The interrupted stack may be a different one (sigaltstack), so it need not be above. */
	walk->pc = pc;
	walk->fp = fp;
	walk->sp = next;
	walk->bottom = next & ~7ULL;
	walk->exact = 1;
	return true;
}

static __always_inline bool step_by_rule(struct walker *walker, u32 rule, enum walk_from from)
{
	struct walk *walk = walker->walk;
	u32 kind = PROFD_RULE_KIND(rule);
	s64 offset = PROFD_RULE_CFA(rule);
	s64 fp_offset = PROFD_RULE_RBP_OFFSET(rule);
	u64 fp = walk->fp;
	u64 cfa, pc;

	if (kind == PROFD_RULE_RSP) {
		cfa = walk->sp + offset;
	} else if (kind == PROFD_RULE_RBP) {
		cfa = walk->fp + offset;
	} else if (kind == PROFD_RULE_PLT) {
		cfa = walk->sp + 8 + ((walk->pc & 15) >= 11 ? 8 : 0);
	} else if (kind == PROFD_RULE_DEREF_RBP) {
		if (!read_stack(walker, walk->fp + offset, &cfa, from) ||
		    !read_stack(walker, walk->fp, &fp, from)) {
			walk->result = PROFD_WALK_UNREADABLE;
			return false;
		}
		fp_offset = 0;
	} else {
		walk->result = PROFD_WALK_UNSUPPORTED;
		return false;
	}
	if (cfa <= walk->sp) {
		walk->result = PROFD_WALK_NO_PROGRESS;
		return false;
	}
	if ((fp_offset && !read_stack(walker, cfa + fp_offset, &fp, from)) ||
	    !read_stack(walker, cfa - 8, &pc, from)) {
		walk->result = PROFD_WALK_UNREADABLE;
		return false;
	}
	walk->pc = pc;
	walk->fp = fp;
	walk->sp = cfa;
	walk->exact = 0;
	return true;
}

/* An address inside the frame's instruction: for a return address that is the call. */
static __always_inline u64 address_of(struct walk *walk)
{
	return walk->exact ? walk->pc : walk->pc - 1;
}

/* Locates and appends the current frame. False ends the walk; walk->result says why. */
static __always_inline bool name_frame(struct walker *walker)
{
	struct walk *walk = walker->walk;
	u64 frame;

	if (!locate(walker, address_of(walk)))
		return false;
	frame = walk->pc;
	if (walk->map_module)
		frame = walk->pc - walk->map_start + walk->map_offset;
	frame = (frame & PROFD_FRAME_OFFSET_MASK) |
		((u64)walk->map_module << PROFD_FRAME_MODULE_SHIFT);
	if (walk->frames >= PROFD_MAX_FRAMES) {
		walk->result = PROFD_WALK_TOO_DEEP;
		return false;
	}
	walk->record.frames[walk->frames & (PROFD_MAX_FRAMES - 1)] = frame;
	walk->frames++;
	walk->hash = mix(walk->hash, frame);
	return true;
}

/* At a function's first instruction the return address is at the top of the stack. */
#define ENTRY_RULE PROFD_RULE_PACK(PROFD_RULE_RSP, 1, 0)

/* One frame: appends it, then steps to its caller. 1 ends the walk. */
static __always_inline long walk_frame(struct walker *walker, enum walk_from from, bool at_entry)
{
	struct walk *walk = walker->walk;
	u32 rule, kind;

	if (!name_frame(walker))
		return 1;
	rule = PROFD_RULE_NONE;
	if (at_entry) {
		walk->at_entry = 0;
		rule = ENTRY_RULE;
	} else if (walk->map_state == PROFD_MODULE_PENDING) {
		walk->result = PROFD_WALK_RULES_PENDING;
		return 1;
	} else if (walk->map_state == PROFD_MODULE_READY) {
		rule = recall_rule(walk, address_of(walk) - walk->map_start + walk->map_offset);
	}
	kind = PROFD_RULE_KIND(rule);
	if (kind == PROFD_RULE_END) {
		walk->result = PROFD_WALK_COMPLETE;
		return 1;
	}
	if (kind == PROFD_RULE_NONE)
		return !step_by_frame_pointer(walker, from);
	if (kind == PROFD_RULE_SIGNAL)
		return !step_over_signal(walker, from);
	return !step_by_rule(walker, rule, from);
}

static long walk_frame_own(u32 index, void *walker)
{
	return walk_frame(walker, WALK_OWN, false);
}

static long walk_frame_from_entry(u32 index, struct walker *walker)
{
	return walk_frame(walker, WALK_OWN, walker->walk->at_entry);
}

static long walk_frame_outside(u32 index, void *walker)
{
	return walk_frame(walker, WALK_OUTSIDE, false);
}

/* Length of the longest instruction plus one, bytes. */
#define MAX_INSTRUCTION 16

/* The thread's program counter. The instruction under a probe is executed in a page that belongs to
 * no file; for a thread that waits there, this is the address of the probe.
 */
static __always_inline u64 user_pc(struct task_struct *task, struct pt_regs *regs)
{
	struct uprobe_task *probed;

	if (!bpf_core_field_exists(struct task_struct, utask))
		return regs->ip;
	probed = BPF_CORE_READ(task, utask);
	if (!probed || !BPF_CORE_READ(probed, active_uprobe) ||
	    regs->ip - BPF_CORE_READ(probed, xol_vaddr) >= MAX_INSTRUCTION)
		return regs->ip;
	return BPF_CORE_READ(probed, vaddr);
}

static __always_inline void begin_walk(struct walker *walker, u64 pc, u64 sp, u64 fp)
{
	struct walk *walk = walker->walk;

	name_space(walk, walker->task);
	walk->pc = pc;
	walk->sp = sp;
	walk->fp = fp;
	walk->bottom = sp & ~7ULL;
	walk->map_start = 0;
	walk->map_end = 0;
	walk->exact = 1;
	walk->result = PROFD_WALK_TOO_DEEP;
}

/* Walks the stack of the current thread, like walk_from_outside. `at_entry`: pc is a function's
 * first instruction.
 */
static __always_inline void walk_own(struct walker *walker, u64 pc, u64 sp, u64 fp, bool at_entry)
{
	begin_walk(walker, pc, sp, fp);
	walker->walk->at_entry = at_entry;
	/* The verifier follows every way through a frame, for each program. */
	if (__builtin_constant_p(at_entry) && !at_entry)
		bpf_loop(PROFD_MAX_USER_FRAMES, walk_frame_own, walker, 0);
	else
		bpf_loop(PROFD_MAX_USER_FRAMES, walk_frame_from_entry, walker, 0);
}

/* Walks from the given registers. Frames are appended to walk->record after walk->frames;
 * walk->result says how it ended.
 */
static __always_inline void walk_from_outside(struct walker *walker, u64 pc, u64 sp, u64 fp)
{
	struct walk *walk = walker->walk;

	begin_walk(walker, pc, sp, fp);
	walk->hurried = 1;
	/* Read the innermost page first. If the thread runs after that, the walk is still valid
	 * unless it needs more than this page.
	 */
	fill_window(walker, walk->bottom);
	if (!walk->torn)
		bpf_loop(PROFD_MAX_USER_FRAMES, walk_frame_outside, walker, 0);
}

#endif /* PROFD_BPF_UNWIND_BPF_H_ */
