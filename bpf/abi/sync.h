/* Calls that return when written data has reached the disk; a part of the source `disk`. They are
 * counted in its tables.
 */
#ifndef PROFD_BPF_ABI_SYNC_H_
#define PROFD_BPF_ABI_SYNC_H_

#include "base.h"
#include "object.h"

enum profd_sync_call {
	PROFD_SYNC_FSYNC = 0,
	PROFD_SYNC_FDATASYNC = 1,
	PROFD_SYNC_RANGE = 2, /* sync_file_range */
	PROFD_SYNC_MSYNC = 3, /* with MS_SYNC */
	PROFD_SYNC_FS = 4, /* syncfs */
	PROFD_SYNC_CALLS = 5,
};

/* Argument of a sample: the hash of the file's description, which ends in 16 zero bits, or
 * PROFD_OBJECT_BIT alone; the call; and how long it took, as of disk requests. No device number is
 * so large that a disk request has PROFD_OBJECT_BIT.
 */
#define PROFD_SYNC_ARGUMENT(file, call, bucket) ((file) | (profd_u64)(call) << 8 | (bucket))
#define PROFD_SYNC_FILE(argument) ((argument) & ~0xffffULL)
#define PROFD_SYNC_CALL(argument) ((profd_u32)((argument) >> 8 & 7))
#define PROFD_SYNC_BUCKET(argument) ((profd_u32)((argument) & 0x3f))
#define PROFD_SYNC_JOINED (1ULL << 11) /* it began while another thread synced the same file */
#define PROFD_SYNC_FAILED (1ULL << 12)
/* An argument without what only tells calls of one place apart. */
#define PROFD_SYNC_PLACE(argument) ((argument) & ~(PROFD_SYNC_FAILED | PROFD_SYNC_JOINED | 0xff))

/* A call that has not returned. */
struct profd_open_sync {
	profd_u64 stack; /* hash of a stack record; 0: not in the sample of stacks */
	profd_u64 argument; /* without the bucket */
	profd_u64 began;
	profd_u64 inode; /* its address */
};

#endif /* PROFD_BPF_ABI_SYNC_H_ */
