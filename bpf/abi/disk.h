/* The source `disk`: requests to block devices. */
#ifndef PROFD_BPF_ABI_DISK_H_
#define PROFD_BPF_ABI_DISK_H_

#include "base.h"

enum profd_disk_operation {
	PROFD_DISK_READ = 0,
	PROFD_DISK_WRITE = 1,
	PROFD_DISK_FLUSH = 2, /* without data: the device empties its cache */
	PROFD_DISK_DISCARD = 3,
	PROFD_DISK_OTHER = 4, /* of zones and the like */
	PROFD_DISK_OPERATIONS = 5,
};

/* Argument of a sample: the device as the kernel numbers it (major << 20 | minor), the operation,
 * and how long the request took: 2^bucket ns or more, and less than twice that.
 */
#define PROFD_DISK_ARGUMENT(device, operation, bucket)                                             \
	((profd_u64)(device) << 32 | (profd_u64)(operation) << 8 | (bucket))
#define PROFD_DISK_DEVICE(argument) ((profd_u32)((argument) >> 32))
#define PROFD_DISK_OPERATION(argument) ((profd_u32)((argument) >> 8 & 0xff))
#define PROFD_DISK_BUCKET(argument) ((profd_u32)((argument) & 0xff))
#define PROFD_DISK_BUCKETS 64
/* In an argument: it begins where the thread's last one of that device and operation ended. */
#define PROFD_DISK_SEQUENTIAL (1ULL << 16)
/* In an argument that is of no request: so many requests were in flight on the device. */
#define PROFD_DISK_PEAK (1ULL << 31)
#define PROFD_DISK_MOST_IN_FLIGHT 0xffff
/* An argument without what only tells requests of one place apart. */
#define PROFD_DISK_PLACE(argument) ((argument) & ~(PROFD_DISK_SEQUENTIAL | 0xff))
#define PROFD_DISK_MINOR_BITS 20

/* Where a thread's last request of a device and operation ended. */
struct profd_disk_end {
	profd_u64 sector;
	profd_u32 device; /* 0: there was none */
	profd_u32 pad;
};
#define PROFD_DISK_ENDS 2 /* of reads and writes */

/* A request that is not done. */
struct profd_disk_request {
	profd_u64 thread_id; /* of the thread that submitted it */
	profd_u64 stack; /* hash of a stack record; 0: not in the sample of stacks */
	profd_u64 queued; /* when the kernel made the request */
	profd_u64 issued; /* when the driver got it; 0: not yet */
	profd_u64 bytes; /* done */
	profd_u32 device;
	profd_u16 operation;
	profd_u16 sequential; /* 1: begins where the thread's last one ended */
};

#define PROFD_DISK_DEVICES 256
/* Requests of targets that the driver of a device has. */
struct profd_disk_flight {
	profd_u32 requests; /* now */
	profd_u32 pad;
	/* The most since a drain, as of the last request: number of the drain << 32 | requests. */
	profd_u64 peak;
	profd_u64 thread_id; /* whose request brought that about */
};

struct profd_disk_key {
	profd_u64 thread_id;
	profd_u64 stack;
	profd_u64 argument;
};

/* Of requests that are done. */
struct profd_disk_value {
	profd_u64 requests;
	profd_u64 bytes; /* of those without an error */
	profd_u64 queue_ns; /* until the driver got them */
	profd_u64 service_ns; /* from then on */
};

/* Cost of the programs for requests and file syncs of targets. Per CPU. */
struct profd_disk_cost {
	profd_u64 requests; /* submitted; and syncs */
	profd_u64 ns; /* of these runs, without stacks; excludes entering and leaving the program */
	profd_u64 walks; /* of them, with a stack */
	profd_u64 walk_ns; /* additional time */
	profd_u64 done_ns; /* of the runs at their ends */
};

#endif /* PROFD_BPF_ABI_DISK_H_ */
