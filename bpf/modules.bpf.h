/* Which file an address lies in, asked from the kernel, and that file's unwind rules. */
#ifndef PROFD_BPF_MODULES_BPF_H_
#define PROFD_BPF_MODULES_BPF_H_

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "abi.h"
#include "abi/rule_table.h"
#include "loss.bpf.h"
#include "ring_news.bpf.h"
#include "target.bpf.h"
#include "walk.bpf.h"

/* Known files; sized by the daemon. Ids are given here; the daemon fills in the state once it has
 * rules, and takes out what no target maps any more when room is needed. An entry may be given to
 * another file at any time, but never under the same id, and the check tells.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct profd_module_key);
	__type(value, struct profd_module);
} modules SEC(".maps") __weak;

/* Rules of a module (abi/rule_table.h); a template, the real ones are sized by the daemon. */
struct rule_table {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(u32));
	__uint(value_size, sizeof(u64));
};

/* Rule table of each module id; sized by the daemon. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, u32);
	__array(values, struct rule_table);
} rule_tables SEC(".maps") __weak;

/* Source of module ids; 0 is none. */
profd_u32 next_module_id __weak;

/* Entries in `modules`, the daemon's removals included. */
profd_u32 modules_in_use __weak;

/* How many there may be; set before it runs. */
const volatile profd_u32 max_modules __weak = 1;

/* Advanced by the daemon; entries keep the value of their last use. */
profd_u32 module_clock __weak;

/* Advanced by the daemon after it has removed modules: cached mappings from before are void. */
profd_u32 module_epoch __weak;

/* What an entry is before it has an id; here, because little BPF stack is left. */
const volatile struct profd_module unnamed_module __weak = {};

#define WRITER_LOCKED 1 /* RWSEM_WRITER_LOCKED, kernel/locking/rwsem.c */

/* Whether a thread holds the lock of a memory map to change it, as of now. Never, where the kernel
 * has another kind of lock (PREEMPT_RT).
 */
static __always_inline bool is_map_locked(struct mm_struct *mm)
{
	return bpf_core_field_exists(mm->mmap_lock.count) &&
	       ((volatile struct mm_struct *)mm)->mmap_lock.count.counter & WRITER_LOCKED;
}

/* Programs of 32 bits have another vDSO, below this address. */
#define LEAST_VDSO (1ULL << 32)

/* The vDSO of a 64-bit program: every process has the same. A process can move it, so its place is
 * read each time.
 */
static __always_inline bool is_vdso(struct vm_area_struct *vma)
{
	struct mm_struct *mm = vma->vm_mm;

	return mm && vma->vm_ops && vma->vm_start >= LEAST_VDSO &&
	       vma->vm_start == (u64)mm->context.vdso;
}

/* Tells the times of two writings apart. */
static __always_inline u32 written_at(struct inode *inode)
{
	u64 seconds = 0;
	u32 ns = 0;

	if (bpf_core_field_exists(struct inode___sec, i_mtime_sec)) {
		seconds = ((struct inode___sec *)inode)->i_mtime_sec;
		ns = ((struct inode___sec *)inode)->i_mtime_nsec;
	} else if (bpf_core_field_exists(struct inode___timespec, __i_mtime)) {
		seconds = ((struct inode___timespec *)inode)->__i_mtime.tv_sec;
		ns = ((struct inode___timespec *)inode)->__i_mtime.tv_nsec;
	} else if (bpf_core_field_exists(struct inode___old, i_mtime)) {
		seconds = ((struct inode___old *)inode)->i_mtime.tv_sec;
		ns = ((struct inode___old *)inode)->i_mtime.tv_nsec;
	}
	return (u32)seconds * 0x85ebca6b ^ ns * 0xc2b2ae35;
}

static __always_inline void describe_mapping(struct vm_area_struct *vma, struct mapping *mapping)
{
	struct file *file = vma->vm_file;

	mapping->start = vma->vm_start;
	mapping->end = vma->vm_end;
	mapping->file_offset = (u64)vma->vm_pgoff << PAGE_SHIFT;
	mapping->key.ino = 0;
	if (file) {
		struct inode *inode = file->f_inode;

		mapping->key.ino = inode->i_ino;
		/* A file that is rewritten in place keeps all but its size and times. */
		mapping->key.generation =
			inode->i_generation ^ (u32)inode->i_size * 0x9e3779b1 ^ written_at(inode);
		mapping->key.dev = inode->i_sb->s_dev;
	} else if (is_vdso(vma)) {
		mapping->key.ino = PROFD_VDSO_INO;
		mapping->key.generation = 0;
		mapping->key.dev = PROFD_VDSO_DEV;
		mapping->file_offset = 0;
	}
}

/* Tells the daemon of a mapping whose file needs rules, of a process with this pid. Neither static
 * nor inlined, like all that walks have in common: the verifier follows it once.
 */
__noinline int announce_module(struct mapping *mapping, int pid)
{
	struct profd_module_record *record;
	struct profd_module *module;
	struct profd_module_key key;

	if (!mapping)
		return 0;
	key = mapping->key;
	module = bpf_map_lookup_elem(&modules, &key);
	/* Without an id it is another entry, which is just being made. */
	if (!module || !module->module_id || module->announced)
		return 0;
	record = bpf_ringbuf_reserve(&events, sizeof(*record), 0);
	if (!record) {
		lose(PROFD_LOSS_RING_FULL_EVENT, 1);
		return 0;
	}
	record->type = PROFD_RECORD_MODULE;
	record->pid = pid;
	record->key = key;
	record->start = mapping->start;
	record->end = mapping->end;
	record->file_offset = mapping->file_offset;
	module->announced = 1; /* before the daemon knows, and may replace the entry */
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	tell_ring_news();
	return 0;
}

/* Makes an entry for a file without one. Who comes second, on another CPU, makes none. */
static __always_inline void add_module(struct profd_module_key *key)
{
	struct profd_module *module;
	u32 id;

	if (bpf_map_update_elem(&modules, key, (void *)&unnamed_module, BPF_NOEXIST))
		return;
	module = bpf_map_lookup_elem(&modules, key);
	if (!module)
		return;
	id = __sync_fetch_and_add(&next_module_id, 1) + 1;
	module->used = module_clock;
	module->check = profd_module_check(key, id, PROFD_MODULE_PENDING);
	barrier();
	module->module_id = id;
	__sync_fetch_and_add(&modules_in_use, 1);
}

/* The module of a mapping with a key. 0: another CPU makes its entry right now, or it was just
 * removed; look again later.
 */
__noinline int look_up_module(struct mapping *mapping, struct known_module *known)
{
	struct profd_module_key key;
	struct profd_module *module;
	u64 check;

	if (!mapping || !known)
		return 0;
	key = mapping->key; /* 6.1 takes no key that it was given */
	module = bpf_map_lookup_elem(&modules, &key);
	known->module_id = 0;
	known->state = PROFD_MODULE_NO_RULES;
	known->watch = 0;
	known->announced = 1;
	if (!module) {
		if (modules_in_use >= max_modules || next_module_id >= PROFD_MAX_MODULE_ID) {
			lose(PROFD_LOSS_MODULES_FULL, 1);
			return 1;
		}
		add_module(&key);
		module = bpf_map_lookup_elem(&modules, &key);
		if (!module)
			return 0;
	}
	if (module->used != module_clock)
		module->used = module_clock;
	known->module_id = module->module_id;
	known->state = module->state;
	known->watch = module->watch;
	known->announced = module->announced || !module->module_id;
	barrier();
	check = *(volatile u64 *)&module->check;
	return known->module_id &&
	       check == profd_module_check(&key, known->module_id, known->state);
}

/* The same; announces a module that the daemon does not know yet. `task` maps it. */
static __always_inline bool find_module(struct task_struct *task, struct mapping *mapping,
					struct known_module *known)
{
	bool found = look_up_module(mapping, known);

	if (!known->announced)
		announce_module(mapping, visible_pid(untrusted(task)->group_leader));
	return found;
}

/* A search in a rule table; lives on the stack. */
struct rule_search {
	void *table;
	u32 low, high; /* among the rows */
	u32 rows; /* word at which these begin */
	u32 offset; /* in the page */
};

/* The half with this number of those that are stored two a word, from `word` on; 0: there is none.
 */
static __always_inline u32 half_of(void *table, u32 word, u32 number)
{
	u32 *halves;

	word += number >> 1;
	halves = bpf_map_lookup_elem(table, &word);
	if (!halves)
		return 0;
	return number & 1 ? halves[1] : halves[0];
}

#define ROW_OFFSET(row) ((row) & PROFD_RULE_PAGE_MASK)
#define ROW_RULE(row) ((row) >> 16)

/* Halves the range. 1 ends the search. */
static long search_rule(u32 index, struct rule_search *search)
{
	u32 middle = search->low + ((search->high - search->low) >> 1);

	if (search->low >= search->high)
		return 1;
	if (ROW_OFFSET(half_of(search->table, search->rows, middle)) <= search->offset)
		search->low = middle + 1;
	else
		search->high = middle;
	return 0;
}

#define NO_RULES (-1)

/* The rule in force at a file offset: that of the last row that does not begin after it. NO_RULES:
 * the module was removed. Neither static nor inlined: the verifier follows it once.
 */
__noinline s64 find_rule(u32 module_id, u32 offset)
{
	struct rule_search search = {.offset = offset & PROFD_RULE_PAGE_MASK};
	u32 word = 0, last = offset >> PROFD_RULE_PAGE_BITS;
	struct profd_rule_head *head;
	struct profd_rule_page *page;
	u32 rules;

	search.table = bpf_map_lookup_elem(&rule_tables, &module_id);
	if (!search.table)
		return NO_RULES;
	head = bpf_map_lookup_elem(search.table, &word);
	if (!head || head->module_id != module_id)
		return NO_RULES;
	rules = PROFD_RULE_WORD_OF_RULES(head);
	search.rows = PROFD_RULE_WORD_OF_ROWS(head);
	if (last > head->last_page) {
		last = head->last_page;
		search.offset = PROFD_RULE_PAGE_MASK;
	}
	word = PROFD_RULE_WORD_OF_PAGE(last);
	page = bpf_map_lookup_elem(search.table, &word);
	if (!page)
		return NO_RULES;
	search.low = page->begin;
	search.high = page->end;
	bpf_loop(PROFD_RULE_SEARCH_STEPS, search_rule, &search, 0);
	/* The row before may be in an earlier page. */
	if (!search.low)
		return PROFD_RULE_NONE;
	return half_of(search.table, rules,
		       ROW_RULE(half_of(search.table, search.rows, search.low - 1)));
}

#endif /* PROFD_BPF_MODULES_BPF_H_ */
