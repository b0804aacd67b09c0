/* Unwind rules in the form that the walker searches. */
#ifndef PROFD_BPF_ABI_RULE_H_
#define PROFD_BPF_ABI_RULE_H_

#include "base.h"

/* One unwind rule, valid from file offset `offset` up to that of the next row. 8 bytes. */
struct profd_rule {
	profd_u32 offset;
	profd_u32 rule; /* PROFD_RULE_* packed */
};

/* rule = kind:4 | CFA offset / 8: signed 20 (frames of up to 4 MiB) | saved rbp's offset from
 * CFA / 8: signed 8. rbp field 0 means rbp is unchanged. The return address is always at CFA - 8.
 */
#define PROFD_RULE_CFA_BITS 20
#define PROFD_RULE_RBP_BITS 8
enum profd_rule_kind {
	PROFD_RULE_NONE = 0, /* no function here */
	PROFD_RULE_RSP = 1, /* CFA = rsp + offset */
	PROFD_RULE_RBP = 2, /* CFA = rbp + offset */
	PROFD_RULE_PLT = 3, /* CFA = rsp + 8 + ((rip & 15) >= 11) * 8 */
	PROFD_RULE_END = 4, /* return address undefined: the root of a stack */
	PROFD_RULE_SIGNAL = 5, /* x86-64 signal frame: registers from the ucontext at rsp */
	PROFD_RULE_UNSUPPORTED = 6,
	PROFD_RULE_DEREF_RBP = 7, /* CFA = *(rbp + offset); rbp = *(rbp) (realigned stack) */
	PROFD_RULE_OTHER_STACK = 8, /* the function changed stacks; its own frame is at rbp */
};
#define PROFD_RULE_PACK(kind, cfa_words, rbp_words)                                                \
	((profd_u32)(kind) | (((profd_u32)(cfa_words) & 0xfffff) << 4) |                           \
	 (((profd_u32)(rbp_words) & 0xff) << 24))
#define PROFD_RULE_KIND(r) ((r) & 0xf)
#define PROFD_RULE_CFA(r) ((long long)((profd_s32)((r) << 8) >> 12) * 8)
#define PROFD_RULE_RBP_OFFSET(r) ((long long)((profd_s32)(r) >> 24) * 8)

PROFD_STATIC_ASSERT(sizeof(struct profd_rule) == 8, "rule size");

#endif /* PROFD_BPF_ABI_RULE_H_ */
