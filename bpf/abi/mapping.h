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

/* Cookie of its probe: call:7 | stepped:1 << 7. */
#define PROFD_MAP_COOKIE(call, stepped) ((profd_u64)(call) | (profd_u64)(stepped) << 7)
#define PROFD_MAP_CALL(cookie) ((profd_u32)(cookie) & 0x7f)
#define PROFD_MAP_STEPPED(cookie) ((profd_u32)((cookie) >> 7) & 1)

#endif /* PROFD_BPF_ABI_MAPPING_H_ */
