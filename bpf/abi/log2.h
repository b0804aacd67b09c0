/* The binary logarithm, rounded down. BPF has no instruction for it. */
#ifndef PROFD_BPF_ABI_LOG2_H_
#define PROFD_BPF_ABI_LOG2_H_

#include "base.h"

/* Of 0 it is 0. */
static inline __attribute__((always_inline)) profd_u32 profd_log2(profd_u64 value)
{
	profd_u32 log = 0;

	if (value >> 32) {
		value >>= 32;
		log += 32;
	}
	if (value >> 16) {
		value >>= 16;
		log += 16;
	}
	if (value >> 8) {
		value >>= 8;
		log += 8;
	}
	if (value >> 4) {
		value >>= 4;
		log += 4;
	}
	if (value >> 2) {
		value >>= 2;
		log += 2;
	}
	return log + (value >> 1);
}

#endif /* PROFD_BPF_ABI_LOG2_H_ */
