/* The source `module`: files that code runs from. */
#ifndef PROFD_BPF_ABI_MODULE_H_
#define PROFD_BPF_ABI_MODULE_H_

#include "base.h"

/* Identity of a version of a file in the kernel, from a vma's inode. */
struct profd_module_key {
	profd_u64 ino;
	profd_u32 dev; /* kernel encoding: major << 20 | minor */
	profd_u32 generation; /* of the inode, mixed with the file's size and time of writing */
};

/* Key of the vDSO, which has no file: an inode on device 0, which no file system has. */
#define PROFD_VDSO_INO 1
#define PROFD_VDSO_DEV 0

enum profd_module_state {
	PROFD_MODULE_PENDING = 0, /* requested; no rules yet */
	PROFD_MODULE_READY = 1,
	PROFD_MODULE_NO_RULES = 2, /* no usable .eh_frame */
};

/* An entry of the table of modules. Ids are never used again, entries are. */
struct profd_module {
	profd_u64 check; /* profd_module_check: another file may get the entry while it is read */
	profd_u32 module_id; /* 1 ... PROFD_MAX_MODULE_ID; 0: the entry is being made */
	profd_u32 state; /* enum profd_module_state */
	profd_u32 announced; /* 0: announce it to the daemon again */
	profd_u32 watch; /* report processes that map it, by this number; 0: do not */
	profd_u32 used; /* module_clock when it was looked up last */
	profd_u32 pad;
};

/* What an entry holds that was read as a whole. */
static inline profd_u64 profd_module_check(const struct profd_module_key *key, profd_u32 module_id,
					   profd_u32 state)
{
	profd_u64 sum = key->ino * 0x9e3779b97f4a7c15ULL;

	sum = (sum ^ ((profd_u64)key->dev << 32 | key->generation)) * 0xbf58476d1ce4e5b9ULL;
	sum = (sum ^ ((profd_u64)module_id << 32 | state)) * 0x94d049bb133111ebULL;
	return sum ^ sum >> 31;
}

/* A target process maps a watched module (task_vma). */
struct profd_watched_record {
	profd_u32 type;
	profd_s32 pid;
	profd_u32 watch;
	profd_u32 pad;
};

/* An executable mapping: of an unknown module, or any one of a process (task_vma). */
struct profd_module_record {
	profd_u32 type;
	profd_s32 pid;
	struct profd_module_key key;
	profd_u64 start, end; /* addresses of the mapping */
	profd_u64 file_offset; /* bytes, of `start` */
};

/* A target process, whose memory map may be locked by a thread that changes it. */
struct profd_mapping_process {
	profd_s32 pid;
	profd_u32 locked;
};

PROFD_STATIC_ASSERT(sizeof(struct profd_module_key) == 16, "module key size");
PROFD_STATIC_ASSERT(sizeof(struct profd_module) == 32, "module size");

#endif /* PROFD_BPF_ABI_MODULE_H_ */
