#include "daemon/unwind/rule_table.h"

#include <algorithm>
#include <bit>

#include "absl/container/flat_hash_map.h"
#include "bpf/abi/rule_table.h"

namespace profd {
namespace {

constexpr size_t kMostRules = 1 << 16;
constexpr uint32_t kNoneRule = PROFD_RULE_PACK(PROFD_RULE_NONE, 0, 0);
constexpr uint32_t kUnsupportedRule = PROFD_RULE_PACK(PROFD_RULE_UNSUPPORTED, 0, 0);

uint32_t PageOf(uint32_t offset) { return offset >> PROFD_RULE_PAGE_BITS; }

// Numbers rules in the order in which they come.
class DistinctRules {
 public:
  uint16_t NumberOf(uint32_t rule) {
    // Neighbours alternate between few rules.
    const auto it = numbers_.find(rule);
    if (it != numbers_.end()) return it->second;
    if (rules_.size() + 1 >= kMostRules && rule != kUnsupportedRule) {
      return NumberOf(kUnsupportedRule);
    }
    const auto number = static_cast<uint16_t>(rules_.size());
    rules_.push_back(rule);
    numbers_.emplace(rule, number);
    return number;
  }
  const std::vector<uint32_t>& rules() const { return rules_; }

 private:
  absl::flat_hash_map<uint32_t, uint16_t> numbers_;
  std::vector<uint32_t> rules_;
};

// The one at `index` of halves that are stored two a word.
uint32_t HalfOf(std::span<const uint64_t> table, size_t word, size_t index) {
  return static_cast<uint32_t>(table[word + index / 2] >> (index % 2 * 32));
}

void PutHalves(std::span<const uint32_t> halves, std::vector<uint64_t>* table) {
  for (size_t i = 0; i < halves.size(); i += 2) {
    const uint64_t second = i + 1 < halves.size() ? halves[i + 1] : 0;
    table->push_back(halves[i] | second << 32);
  }
}

}  // namespace

std::vector<uint64_t> PackRules(std::span<const profd_rule> rows) {
  if (rows.empty()) return {};
  DistinctRules distinct;
  std::vector<uint32_t> packed;
  packed.reserve(rows.size());
  std::vector<profd_rule_page> pages(PageOf(rows.back().offset) + 1);
  for (const profd_rule& row : rows) {
    pages[PageOf(row.offset)].end++;
    const profd_rule_row half = {.offset = static_cast<uint16_t>(row.offset & PROFD_RULE_PAGE_MASK),
                                 .rule = distinct.NumberOf(row.rule)};
    packed.push_back(std::bit_cast<uint32_t>(half));
  }
  uint32_t begin = 0;
  for (profd_rule_page& page : pages) {
    page.begin = begin;
    page.end += begin;
    begin = page.end;
  }
  const profd_rule_head head = {.module_id = 0,
                                .last_page = static_cast<uint16_t>(pages.size() - 1),
                                .last_rule = static_cast<uint16_t>(distinct.rules().size() - 1)};
  std::vector<uint64_t> table;
  table.reserve(PROFD_RULE_WORD_OF_ROWS(&head) + (packed.size() + 1) / 2);
  table.push_back(std::bit_cast<uint64_t>(head));
  for (const profd_rule_page& page : pages) table.push_back(std::bit_cast<uint64_t>(page));
  PutHalves(distinct.rules(), &table);
  PutHalves(packed, &table);
  return table;
}

uint64_t MostRuleBytes(std::span<const profd_rule> rows) {
  if (rows.empty()) return 0;
  // The head, the pages, and halves that fill no word.
  const uint64_t words = uint64_t{PageOf(rows.back().offset)} + 1 + 3;
  return words * sizeof(uint64_t) + rows.size() * kRuleRowBytes +
         std::min(rows.size(), kMostRules) * sizeof(uint32_t);
}

uint32_t FindPackedRule(std::span<const uint64_t> table, uint32_t offset) {
  if (table.empty()) return kNoneRule;
  const auto head = std::bit_cast<profd_rule_head>(table[0]);
  const uint32_t wanted = std::min<uint32_t>(PageOf(offset), head.last_page);
  const auto page = std::bit_cast<profd_rule_page>(table[PROFD_RULE_WORD_OF_PAGE(wanted)]);
  const size_t rows = PROFD_RULE_WORD_OF_ROWS(&head);
  const auto row_at = [&](uint32_t i) {
    return std::bit_cast<profd_rule_row>(HalfOf(table, rows, i));
  };
  uint32_t after = page.end;
  if (PageOf(offset) == wanted) {
    after = page.begin;
    while (after < page.end && row_at(after).offset <= (offset & PROFD_RULE_PAGE_MASK)) after++;
  }
  if (after == 0) return kNoneRule;
  return HalfOf(table, PROFD_RULE_WORD_OF_RULES(&head), row_at(after - 1).rule);
}

}  // namespace profd
