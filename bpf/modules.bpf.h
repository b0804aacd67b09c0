/* Which file an address lies in, asked from the kernel, and that file's unwind rules. */
#ifndef PROFD_BPF_MODULES_BPF_H_
#define PROFD_BPF_MODULES_BPF_H_

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "abi.h"
#include "loss.bpf.h"
#include "ring_news.bpf.h"
#include "target.bpf.h"

/* Known files. Ids are given here; the daemon fills in the state once it has rules. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PROFD_MAX_MODULES);
	__type(key, struct profd_module_key);
	__type(value, struct profd_module);
} modules SEC(".maps") __weak;

/* Rows of a module, sorted by offset; a template, the real ones are sized by the daemon. */
struct rule_table {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	__uint(max_entries, 1);
	/* Sizes, not types: a program that never reads a row has no BTF for it. */
	__uint(key_size, sizeof(u32));
	__uint(value_size, sizeof(struct profd_rule));
};

/* Rule table of each module id. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, PROFD_MAX_MODULES);
	__type(key, u32);
	__array(values, struct rule_table);
} rule_tables SEC(".maps") __weak;

/* How many modules get an id; set before it runs. */
const volatile profd_u32 max_modules __weak = PROFD_MAX_MODULES - 1;

/* Source of module ids; 0 is none. */
profd_u32 next_module_id __weak;

/* Where an address lies, as bpf_find_vma tells it. Lives on the stack: older kernels want it so. */
struct mapping {
	u64 start;
	u64 end;
	u64 file_offset; /* bytes, of start */
	struct profd_module_key key; /* ino 0: neither a file nor the vDSO */
};

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
		/* The size too: a file that is rewritten in place keeps all the rest. */
		mapping->key.generation = inode->i_generation ^ (u32)inode->i_size * 0x9e3779b1;
		mapping->key.dev = inode->i_sb->s_dev;
	} else if (is_vdso(vma)) {
		mapping->key.ino = PROFD_VDSO_INO;
		mapping->key.generation = 0;
		mapping->key.dev = PROFD_VDSO_DEV;
		mapping->file_offset = 0;
	}
}

/* Tells the daemon of a mapping whose file needs rules. */
static __always_inline bool announce_module(struct task_struct *task, struct mapping *mapping)
{
	struct profd_module_record *record = bpf_ringbuf_reserve(&events, sizeof(*record), 0);

	if (!record) {
		lose(PROFD_LOSS_RING_FULL_EVENT, 1);
		return false;
	}
	record->type = PROFD_RECORD_MODULE;
	record->pid = visible_pid(untrusted(task)->group_leader);
	record->key = mapping->key;
	record->start = mapping->start;
	record->end = mapping->end;
	record->file_offset = mapping->file_offset;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	tell_ring_news();
	return true;
}

/* The module of a mapping with a key. A new one gets an id and is announced; NULL when the
 * table is full.
 */
static __always_inline struct profd_module *module_of(struct task_struct *task,
						      struct mapping *mapping)
{
	struct profd_module *module = bpf_map_lookup_elem(&modules, &mapping->key);
	struct profd_module fresh = {};

	if (module) {
		if (!module->announced)
			module->announced = announce_module(task, mapping);
		return module;
	}
	if (next_module_id >= max_modules) {
		lose(PROFD_LOSS_MODULES_FULL, 1);
		return NULL;
	}
	fresh.module_id = __sync_fetch_and_add(&next_module_id, 1) + 1;
	fresh.state = PROFD_MODULE_PENDING;
	fresh.announced = announce_module(task, mapping);
	bpf_map_update_elem(&modules, &mapping->key, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&modules, &mapping->key);
}

/* A search in a rule table; lives on the stack. */
struct rule_search {
	void *table;
	u32 low, high;
	u32 offset;
	u32 rule;
};

/* Halves the range. 1 ends the search. */
static long search_rule(u32 index, struct rule_search *search)
{
	u32 middle = search->low + ((search->high - search->low) >> 1);
	struct profd_rule *row;

	if (search->low >= search->high)
		return 1;
	row = bpf_map_lookup_elem(search->table, &middle);
	if (!row)
		return 1;
	if (row->offset <= search->offset) {
		search->rule = row->rule;
		search->low = middle + 1;
	} else {
		search->high = middle;
	}
	return 0;
}

/* The rule in force at a file offset: that of the last row that does not begin after it. */
static __always_inline u32 find_rule(u32 module_id, u32 rows, u64 offset)
{
	struct rule_search search = {.high = rows, .offset = (u32)offset};

	search.table = bpf_map_lookup_elem(&rule_tables, &module_id);
	if (!search.table || offset > 0xffffffffULL)
		return PROFD_RULE_NONE;
	bpf_loop(32, search_rule, &search, 0);
	return search.rule;
}

#endif /* PROFD_BPF_MODULES_BPF_H_ */
