/* The source `mapping`: calls that change an address space. */
#ifndef PROFD_BPF_ABI_MAPPING_H_
#define PROFD_BPF_ABI_MAPPING_H_

#include "base.h"

/* A libc function that changes the address space. */
enum profd_map_call {
	PROFD_MAP_MMAP = 1,
	PROFD_MAP_MUNMAP = 2,
	PROFD_MAP_MREMAP = 3,
	PROFD_MAP_BRK = 4,
	PROFD_MAP_MADVISE = 5,
};

#endif /* PROFD_BPF_ABI_MAPPING_H_ */
