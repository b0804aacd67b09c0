/* How the rules of a module are kept: 4 bytes a row. Only who makes and searches tables includes
 * it.
 *
 * A table is an array of 8-byte words, which is how the kernel stores small values anyway:
 *
 *   1 word                   struct profd_rule_head
 *   last_page + 1 words      struct profd_rule_page, by offset >> PROFD_RULE_PAGE_BITS
 *   (last_rule + 2) / 2      the distinct rules, two a word
 *   the rest                 struct profd_rule_row, two a word, by offset
 */
#ifndef PROFD_BPF_ABI_RULE_TABLE_H_
#define PROFD_BPF_ABI_RULE_TABLE_H_

#include "base.h"

#define PROFD_RULE_PAGE_BITS 16
#define PROFD_RULE_PAGE_MASK ((1u << PROFD_RULE_PAGE_BITS) - 1)
/* Halvings that find a row among those of a page: as many rows as offsets, at most. */
#define PROFD_RULE_SEARCH_STEPS (PROFD_RULE_PAGE_BITS + 1)

struct profd_rule_head {
	profd_u32 module_id;
	profd_u16 last_page;
	profd_u16 last_rule;
};

/* Rows that begin in a page: [begin, end). */
struct profd_rule_page {
	profd_u32 begin, end;
};

struct profd_rule_row {
	profd_u16 offset; /* in its page */
	profd_u16 rule; /* index of a distinct rule */
};

/* The words at which the distinct rules and the rows begin. */
#define PROFD_RULE_WORD_OF_PAGE(page) (1 + (page))
#define PROFD_RULE_WORD_OF_RULES(head) (2 + (profd_u32)(head)->last_page)
#define PROFD_RULE_WORD_OF_ROWS(head)                                                              \
	(PROFD_RULE_WORD_OF_RULES(head) + ((profd_u32)(head)->last_rule + 2) / 2)

PROFD_STATIC_ASSERT(sizeof(struct profd_rule_head) == 8, "head is a word");
PROFD_STATIC_ASSERT(sizeof(struct profd_rule_page) == 8, "page is a word");
PROFD_STATIC_ASSERT(sizeof(struct profd_rule_row) == 4, "two rows are a word");

#endif /* PROFD_BPF_ABI_RULE_TABLE_H_ */
