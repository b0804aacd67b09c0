#include "daemon/unwind/go_rules.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <string_view>

#include "bpf/abi.h"

namespace profd {
namespace {

constexpr int64_t kWord = 8;
constexpr int64_t kMaxDepth = int64_t{1} << 21;  // what a rule can say, bytes

constexpr uint32_t kUnsupportedRule = PROFD_RULE_PACK(PROFD_RULE_UNSUPPORTED, 0, 0);

// Functions that never return to the goroutine that called them, on the stack where they run.
constexpr std::array<std::string_view, 2> kLeavers = {"runtime.mcall", "runtime.morestack"};

// Go saves rbp below the return address in each function that has a frame.
uint32_t RuleAt(int64_t depth) {
  if (depth < 0 || depth % kWord != 0 || depth >= kMaxDepth) return kUnsupportedRule;
  return PROFD_RULE_PACK(PROFD_RULE_RSP, (depth + kWord) / kWord, depth > 0 ? -2 : 0);
}

}  // namespace

std::optional<GoTable> FindGoTable(const ElfImage& image) {
  std::optional<Elf64_Shdr> section;
  for (const std::string_view name : kGoTableSections) {
    if (!section) section = image.FindSection(name);
  }
  if (!section) return std::nullopt;
  GoPlaces places = {.table = section->sh_offset, .table_size = section->sh_size};
  if (const auto module = image.FindSection(kGoModuleSection)) places.module = module->sh_offset;
  if (const auto text = image.FindSection(kGoTextSection)) places.text = text->sh_addr;
  const std::span<const uint8_t> file = image.file();
  return GoTable::Open(
      places,
      [file](uint64_t offset, std::span<uint8_t> out) {
        if (offset > file.size() || out.size() > file.size() - offset) return false;
        std::memcpy(out.data(), file.data() + offset, out.size());
        return true;
      },
      [&image](uint64_t address) { return image.CodeOffset(address, 1); });
}

void CompileGoFunction(const GoTable& table, const GoFunction& function,
                       absl::FunctionRef<void(uint64_t, uint32_t)> rule) {
  if (function.is_root) {
    rule(function.begin, PROFD_RULE_PACK(PROFD_RULE_END, 0, 0));
    return;
  }
  if (function.sets_stack) {
    const std::string name = table.Name(function);
    const bool leaves = std::find(kLeavers.begin(), kLeavers.end(), name) != kLeavers.end();
    rule(function.begin, PROFD_RULE_PACK(leaves ? PROFD_RULE_END : PROFD_RULE_OTHER_STACK, 0, 0));
    return;
  }
  uint64_t told = function.begin;
  table.ForEachDepth(function, [&](uint64_t begin, uint64_t end, int64_t depth) {
    rule(begin, RuleAt(depth));
    told = end;
  });
  if (told < function.end) rule(told, kUnsupportedRule);
}

}  // namespace profd
