// Packs the rules of a module as the kernel's walker searches them (bpf/abi/rule_table.h).
#ifndef PROFD_DAEMON_UNWIND_RULE_TABLE_H_
#define PROFD_DAEMON_UNWIND_RULE_TABLE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "bpf/abi.h"

namespace profd {

// The words of the table; empty without rows. The kernel's side puts in the module's id. `rows` are
// sorted by offset. Rules beyond the first 65,535 distinct ones become PROFD_RULE_UNSUPPORTED; real
// files have hundreds.
std::vector<uint64_t> PackRules(std::span<const profd_rule> rows);

// What a table takes: at least so much for each row, and at most so many bytes.
inline constexpr uint64_t kRuleRowBytes = 4;
uint64_t MostRuleBytes(std::span<const profd_rule> rows);

// What the kernel's search finds: the rule in force at a file offset. For tests.
uint32_t FindPackedRule(std::span<const uint64_t> table, uint32_t offset);

}  // namespace profd

#endif  // PROFD_DAEMON_UNWIND_RULE_TABLE_H_
