/* The source `module`: files that code runs from. */
#ifndef PROFD_BPF_ABI_MODULE_H_
#define PROFD_BPF_ABI_MODULE_H_

#include "base.h"

#define PROFD_MAX_MODULES 4096

/* Identity of a file in the kernel, from a vma's inode. */
struct profd_module_key {
	profd_u64 ino;
	profd_u32 dev; /* kernel encoding: major << 20 | minor */
	profd_u32 generation;
};

/* Key of the vDSO, which has no file: an inode on device 0, which no file system has. */
#define PROFD_VDSO_INO 1
#define PROFD_VDSO_DEV 0

enum profd_module_state {
	PROFD_MODULE_PENDING = 0, /* requested; no rules yet */
	PROFD_MODULE_READY = 1,
	PROFD_MODULE_NO_RULES = 2, /* no usable .eh_frame */
};

struct profd_module {
	profd_u32 module_id; /* 1 ... PROFD_MAX_MODULES - 1 */
	profd_u32 state; /* enum profd_module_state */
	profd_u32 rows;
	profd_u32 announced; /* 0: announce it to the daemon again */
	profd_u32 watched; /* report processes that map it */
	profd_u32 pad;
};

/* A target process maps a watched module (task_vma). */
struct profd_watched_record {
	profd_u32 type;
	profd_s32 pid;
	profd_u32 module_id;
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

PROFD_STATIC_ASSERT(sizeof(struct profd_module_key) == 16, "module key size");

#endif /* PROFD_BPF_ABI_MODULE_H_ */
