/* The source `told`: objects that allocators report at USDT probes. */
#ifndef PROFD_BPF_ABI_TOLD_H_
#define PROFD_BPF_ABI_TOLD_H_

#include "base.h"
#include "probe.h"

/* An object that the program samples was allocated or freed. */
struct profd_told_record {
	profd_u32 type;
	profd_u32 watch_id; /* of the probe */
	profd_u64 time;
	profd_u64 thread_id;
	profd_u64 address;
	profd_u64 size; /* bytes */
	profd_u64 weight; /* bytes that it stands for; size and weight are unknown on free */
	profd_u64 stack; /* hash; on free 0 if there was no memory for the walk */
	profd_s32 pid; /* in the daemon's PID namespace */
	profd_u32 gone;
};

/* A USDT probe of the provider otel_memory. */
enum profd_usdt_place {
	PROFD_USDT_ALLOC = 1, /* alloc(pointer, size, weighted bytes) */
	PROFD_USDT_FREE = 2, /* free(pointer) */
};

/* An argument of such a probe: value + base + (index << shift), or the memory at that address. */
struct profd_usdt_argument {
	profd_u8 size; /* bytes: 1, 2, 4, 8 */
	profd_u8 is_signed;
	profd_u8 in_memory;
	profd_u8 base; /* a register as an index into struct pt_regs, or PROFD_USDT_NO_REGISTER */
	profd_u8 index; /* the same */
	profd_u8 shift;
	profd_u8 pad[2];
	profd_u64 value;
};
#define PROFD_USDT_NO_REGISTER 0xff
#define PROFD_USDT_ARGUMENTS 3
struct profd_usdt_spec {
	struct profd_usdt_argument arguments[PROFD_USDT_ARGUMENTS];
};
#define PROFD_MAX_USDT_SPECS 1024

/* Cookie of its probe: PROFD_PROBE_COOKIE and the number of its argument specification:32 << 32. */
#define PROFD_USDT_COOKIE(place, stepped, watch, spec)                                             \
	(PROFD_PROBE_COOKIE(place, stepped, watch) | (profd_u64)(spec) << 32)
#define PROFD_USDT_SPEC(cookie) ((profd_u32)((cookie) >> 32))

PROFD_STATIC_ASSERT(sizeof(struct profd_told_record) == 64, "told record size");
PROFD_STATIC_ASSERT(sizeof(struct profd_usdt_argument) == 16, "USDT argument size");

#endif /* PROFD_BPF_ABI_TOLD_H_ */
