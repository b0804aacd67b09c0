/* Which mapping an address is in: what walks found is remembered while the mappings of the address
 * space do not change.
 */
#ifndef PROFD_BPF_MAPPING_CACHE_BPF_H_
#define PROFD_BPF_MAPPING_CACHE_BPF_H_

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "abi.h"
#include "modules.bpf.h"
#include "walk.bpf.h"

#define MAPPING_REGION_BITS 16 /* an entry for each 64 KiB: a large library has several */
#define BUSY_LOOKUPS 200 /* about 15 us; a change of mappings usually holds the lock for less */
#define TRUSTED_LOOKUPS 8 /* in an interrupt; one of them is checked */

/* Mappings that any walk found. In an interrupt the kernel tells one mapping only: the rest comes
 * from here.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, u64); /* place_of_mapping */
	__type(value, struct shared_mapping);
} shared_mappings SEC(".maps") __weak;

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
		/* A change is counted as it ends. */
		if (is_map_locked(mm))
			changes = NO_COUNT;
	}
	return changes;
}

/* Identifies the address space of one program, and what was known of modules then. The pointer
 * alone is not enough: it is reused.
 */
static __always_inline void name_space(struct walk *walk, struct task_struct *task)
{
	volatile u64 *space = &walk->space;

	/* Through memory: the verifier does not allow arithmetic on a pointer. */
	*space = (u64)untrusted(task)->mm;
	*space = mix(*space, untrusted(task)->group_leader->start_time);
	*space =
		mix(*space, (u64) * (volatile u32 *)&module_epoch << 32 | (u32)task->self_exec_id) |
		1;
}

/* Where a mapping is remembered. Others may have the same place. */
static __always_inline u64 place_of_mapping(u64 space, u64 address)
{
	return mix(space, address >> MAPPING_REGION_BITS);
}

static __always_inline struct cached_mapping *cached_mapping(struct walk *walk, u64 address)
{
	u32 slot = (u32)(place_of_mapping(walk->space, address) >> 32);

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

	if (busy && error == -EBUSY)
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

static long on_vma(struct task_struct *task, struct vm_area_struct *vma, struct mapping *mapping)
{
	describe_mapping(vma, mapping);
	return 0;
}

/* A question to the kernel about the current thread. Small: little of the BPF stack is left. */
struct question {
	u64 address;
	struct mapping *mapping; /* the answer */
	s64 error;
};

static long ask_once(u32 index, struct question *question)
{
	question->error = bpf_find_vma(bpf_get_current_task_btf(), question->address, on_vma,
				       question->mapping, 0);
	return question->error != -EBUSY;
}

/* Asks the kernel for the mapping of an address of the current thread, and again while others hold
 * the lock, unless in a hurry. Returns 0 or an error.
 *
 * Neither static nor inlined: the verifier would follow the answer in each state in which it is
 * asked for. It ends the deepest chain of calls, from fsync, which is as deep as calls may be.
 */
__noinline int ask_own_mapping(u64 address, struct mapping *mapping, u32 hurried)
{
	struct mapping answer = {};
	struct question question = {.address = address, .mapping = &answer};

	bpf_loop(hurried ? 1 : BUSY_LOOKUPS, ask_once, &question, 0);
	if (mapping)
		*mapping = answer;
	return question.error;
}

/* The same within a walk, for walk->found. From outside nobody is patient. */
static __always_inline int ask_mapping(struct walker *walker, u64 address, u32 changes, bool own)
{
	struct walk *walk = walker->walk;
	struct mapping answer = {}; /* on the stack: older kernels want it so */
	bool known;
	int error;

	if (!own) {
		error = bpf_find_vma(walker->task, address, on_vma, &answer, 0);
		walk->found = answer;
		return error;
	}
	known = walk->in_cache || walk->in_shared;
	/* Where the kernel does not count changes, an interrupt saves its one question for a
	 * mapping that nobody found yet. Otherwise the innermost one would use it up each time.
	 */
	if (walk->in_interrupt && changes == NO_COUNT && known &&
	    bpf_get_prandom_u32() % TRUSTED_LOOKUPS)
		return -EBUSY;
	return ask_own_mapping(address, &walk->found, walk->hurried || known);
}

/* Continues with a cached mapping. */
static __always_inline void use_mapping(struct walk *walk, struct cached_mapping *entry)
{
	walk->map_start = entry->start;
	walk->map_end = entry->end;
	walk->map_offset = entry->file_offset;
	walk->map_module = entry->module_id;
	walk->map_state = entry->state;
}

static __always_inline u64 check_mapping(const struct cached_mapping *entry)
{
	u64 sum = mix(mix(mix(entry->space, entry->start), entry->end), entry->file_offset);

	return mix(mix(sum, (u64)entry->changes << 32 | entry->module_id), entry->state);
}

/* What another walk found. It may be older than the last change. Neither static nor inlined, like
 * all that needs a key of `shared_mappings`: little of the BPF stack is left.
 */
__noinline int find_shared(struct walk *walk, u64 address)
{
	struct shared_mapping *found;
	u64 place;

	if (!walk)
		return 0;
	place = place_of_mapping(walk->space, address);
	found = bpf_map_lookup_elem(&shared_mappings, &place);
	if (!found)
		return 0;
	walk->shared = *found;
	return is_cached(walk, &walk->shared.mapping, CACHED_CODE, address) &&
	       walk->shared.check == check_mapping(&walk->shared.mapping);
}

/* Lets other walks find a mapping. Without room, or while another walk writes, they do not. */
__noinline int share_mapping(const struct cached_mapping *entry, u64 address)
{
	struct shared_mapping shared;
	u64 place;

	if (!entry)
		return 0;
	place = place_of_mapping(entry->space, address);
	shared.mapping = *entry;
	shared.check = check_mapping(entry);
	return bpf_map_update_elem(&shared_mappings, &place, &shared, BPF_ANY);
}

/* Caches the mapping that was just found for an address, unless mappings have changed since. */
static __always_inline void cache_mapping(struct walker *walker, struct cached_mapping *entry,
					  u64 address, u32 changes)
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
	entry->state = walk->map_state;
	entry->kind = CACHED_CODE;
	share_mapping(entry, address);
}

/* Continues with what walks have found before, if the mappings have not changed since. */
static __always_inline bool recall_mapping(struct walk *walk, struct cached_mapping *entry,
					   u64 address, u32 changes)
{
	walk->in_shared = 0;
	walk->in_cache = is_cached(walk, entry, CACHED_CODE, address);
	if (walk->in_cache && is_current(entry, changes)) {
		use_mapping(walk, entry);
		return true;
	}
	walk->in_shared = find_shared(walk, address);
	if (walk->in_shared && is_current(&walk->shared.mapping, changes)) {
		*entry = walk->shared.mapping;
		use_mapping(walk, entry);
		return true;
	}
	return false;
}

/* Finds the mapping of an address. False ends the walk; walk->result says why. `own`: the task is
 * the current thread.
 */
static __always_inline bool locate(struct walker *walker, u64 address, bool own)
{
	struct walk *walk = walker->walk;
	struct cached_mapping *entry = cached_mapping(walk, address);
	u32 changes = changes_of(walker->task);
	int error;

	if (address >= walk->map_start && address < walk->map_end)
		return true;
	if (recall_mapping(walk, entry, address, changes))
		return true;
	/* The verifier follows the rest in every state that it can tell apart. */
	barrier();
	error = ask_mapping(walker, address, changes, own);
	barrier();
	/* The map is locked. A cached entry may be older than the last change, but it is wrong
	 * only if other code was mapped in its place.
	 */
	if (error == -EBUSY && walk->in_cache) {
		use_mapping(walk, entry);
		return true;
	}
	if (error == -EBUSY && walk->in_shared) {
		use_mapping(walk, &walk->shared.mapping);
		return true;
	}
	if (error) {
		walk->result = error == -EBUSY ? PROFD_WALK_MAP_BUSY : PROFD_WALK_NOT_MAPPED;
		return false;
	}
	walk->map_start = walk->found.start;
	walk->map_end = walk->found.end;
	walk->map_offset = walk->found.file_offset;
	walk->known.module_id = 0;
	walk->known.state = PROFD_MODULE_NO_RULES;
	if (walk->found.key.ino && !find_module(walker->task, &walk->found, &walk->known)) {
		walk->result = PROFD_WALK_RULES_PENDING;
		return false;
	}
	walk->map_module = walk->known.module_id;
	walk->map_state = walk->known.state;
	cache_mapping(walker, entry, address, changes);
	return true;
}

#endif /* PROFD_BPF_MAPPING_CACHE_BPF_H_ */
