// Compiles what an ELF file says of its stack frames (.eh_frame, .debug_frame, the table of a Go
// program) into the rows that bpf/unwind.bpf.h uses.
#ifndef PROFD_DAEMON_UNWIND_RULES_H_
#define PROFD_DAEMON_UNWIND_RULES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "bpf/abi.h"
#include "daemon/base/status.h"

namespace profd {

struct RuleTable {
  // Sorted by file offset, strictly increasing; a gap between functions is a PROFD_RULE_NONE row;
  // the last row is PROFD_RULE_NONE.
  std::vector<profd_rule> rows;
  // Statistics for `status` and tests.
  uint32_t functions = 0;           // FDEs compiled
  uint32_t rejected_functions = 0;  // malformed FDEs, left out
  uint32_t unsupported_rows = 0;    // rows of kind PROFD_RULE_UNSUPPORTED
};

// Limits for hostile files.
struct RuleLimits {
  size_t max_rows = 16u << 20;
};

// `elf` is the whole file. x86-64 little-endian only. The input is hostile: any bytes give a
// table or an error, never undefined behaviour, in time linear in the size of the input.
// A file without unwind information gives an empty `rows`.
// Format: DWARF 5 section 6.4, the LSB's .eh_frame chapter, the x86-64 psABI 3.7.
absl::StatusOr<RuleTable> CompileRules(std::span<const uint8_t> elf, const RuleLimits& limits = {});

// The rule in force at a file offset (what the kernel's binary search finds); PROFD_RULE_NONE
// outside. For tests and `status`.
uint32_t FindRule(const RuleTable& table, uint32_t file_offset);

}  // namespace profd

#endif  // PROFD_DAEMON_UNWIND_RULES_H_
