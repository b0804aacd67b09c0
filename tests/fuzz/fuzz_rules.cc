// Any bytes given as an ELF file make a table that a binary search can rely on, or an error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "daemon/unwind/rule_table.h"
#include "daemon/unwind/rules.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

void CheckTable(const profd::RuleTable& table, const profd::RuleLimits& limits) {
  Require(table.rows.size() <= limits.max_rows);
  if (table.rows.empty()) return;
  Require(PROFD_RULE_KIND(table.rows.front().rule) != PROFD_RULE_NONE);
  Require(PROFD_RULE_KIND(table.rows.back().rule) == PROFD_RULE_NONE);
  const std::vector<uint64_t> packed = profd::PackRules(table.rows);
  uint32_t unsupported = 0;
  for (size_t i = 0; i < table.rows.size(); ++i) {
    const profd_rule& row = table.rows[i];
    Require(PROFD_RULE_KIND(row.rule) <= PROFD_RULE_DEREF_RBP);
    Require(profd::FindRule(table, row.offset) == row.rule);
    if (i % 64 == 0) Require(profd::FindPackedRule(packed, row.offset) == row.rule);
    if (PROFD_RULE_KIND(row.rule) == PROFD_RULE_UNSUPPORTED) ++unsupported;
    if (i == 0) continue;
    Require(table.rows[i - 1].offset < row.offset);
    Require(table.rows[i - 1].rule != row.rule);
  }
  Require(unsupported == table.unsupported_rows);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  profd::RuleLimits limits;
  limits.max_rows = 1 << 16;
  const auto table = profd::CompileRules({data, size}, limits);
  if (table.ok()) CheckTable(*table, limits);
  return 0;
}
