/* Basics of the contract: fixed-width types and the version. */
#ifndef PROFD_BPF_ABI_BASE_H_
#define PROFD_BPF_ABI_BASE_H_

#ifdef __bpf__
typedef unsigned char profd_u8;
typedef unsigned short profd_u16;
typedef unsigned int profd_u32;
typedef unsigned long long profd_u64;
typedef int profd_s32;
#else
#include <stdint.h>
typedef uint8_t profd_u8;
typedef uint16_t profd_u16;
typedef uint32_t profd_u32;
typedef uint64_t profd_u64;
typedef int32_t profd_s32;
#endif

#define PROFD_STATIC_ASSERT(e, m) _Static_assert(e, m)
#ifdef __cplusplus
#undef PROFD_STATIC_ASSERT
#define PROFD_STATIC_ASSERT(e, m) static_assert(e, m)
#endif

#endif /* PROFD_BPF_ABI_BASE_H_ */
