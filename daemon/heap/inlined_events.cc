#include "daemon/heap/inlined_events.h"

#include <algorithm>
#include <array>
#include <optional>

#include "daemon/heap/instructions.h"

namespace profd {
namespace {

// The subtraction lies at most so many instructions before the store, the comparisons so many after.
constexpr size_t kBefore = 4;
constexpr size_t kAfter = 8;
// Thread data is some kilobytes.
constexpr int64_t kLargestField = 1 << 16;
constexpr int64_t kReentrancyField = 1;
constexpr int64_t kNominalStates = 2;

// What counts of an instruction.
struct Step {
  enum class Does : uint8_t { kOther, kSubtracts, kStores, kComparesState, kComparesReentrancy };
  Does does = Does::kOther;
  ZydisRegister value = ZYDIS_REGISTER_NONE;
  ZydisRegister base = ZYDIS_REGISTER_NONE;  // none: any
  int64_t field = 0;
  uint64_t offset = 0;
};

bool IsFieldOf(const ZydisDecodedOperand& operand, uint16_t bits) {
  return IsField(operand) && operand.size == bits &&
         ZydisRegisterGetClass(operand.mem.base) == ZYDIS_REGCLASS_GPR64;
}

bool IsWhole(const ZydisDecodedOperand& operand) {
  return operand.type == ZYDIS_OPERAND_TYPE_REGISTER &&
         ZydisRegisterGetClass(operand.reg.value) == ZYDIS_REGCLASS_GPR64;
}

Step Understand(const Decoded& decoded, uint64_t offset) {
  const auto& [instruction, operands] = decoded;
  Step step;
  step.offset = offset;
  if (instruction.operand_count_visible != 2) return step;
  const ZydisDecodedOperand& to = operands[0];
  const ZydisDecodedOperand& from = operands[1];
  const auto at = [&step](const ZydisDecodedOperand& memory) {
    step.base = memory.mem.base;
    step.field = Displacement(memory);
  };
  switch (instruction.mnemonic) {
    case ZYDIS_MNEMONIC_SUB:
      if (!IsWhole(to) || !IsFieldOf(from, 64)) return step;
      at(from);
      step.does = Step::Does::kSubtracts;
      step.value = to.reg.value;
      return step;
    case ZYDIS_MNEMONIC_MOV:
      if (!IsFieldOf(to, 64) || !IsWhole(from)) return step;
      at(to);
      step.does = Step::Does::kStores;
      step.value = from.reg.value;
      return step;
    case ZYDIS_MNEMONIC_CMP:
      if (from.type != ZYDIS_OPERAND_TYPE_IMMEDIATE) return step;
      if (from.imm.value.s == kNominalStates && to.size == 8) {
        step.does = Step::Does::kComparesState;
        if (IsFieldOf(to, 8)) at(to);
      } else if (from.imm.value.s == 0 && IsFieldOf(to, 8)) {
        at(to);
        if (step.field == kReentrancyField) step.does = Step::Does::kComparesReentrancy;
      }
      return step;
    default:
      return step;
  }
}

bool ComesFrom(std::span<const Step> before, const Step& store) {
  return std::any_of(before.begin(), before.end(), [&](const Step& step) {
    return step.does == Step::Does::kSubtracts && step.base == store.base &&
           step.field == store.field && step.value != store.value;
  });
}

bool IsFollowed(std::span<const Step> after, const Step& store) {
  const auto has = [&](Step::Does does) {
    return std::any_of(after.begin(), after.end(), [&](const Step& step) {
      return step.does == does && (step.base == store.base || step.base == ZYDIS_REGISTER_NONE);
    });
  };
  return has(Step::Does::kComparesState) && has(Step::Does::kComparesReentrancy);
}

// Whether the comparison of the byte [reg + 1] with 0 may be anywhere in it: most functions are not
// decoded.
bool MayHoldEvent(std::span<const uint8_t> code) {
  for (size_t i = 0; i + 4 <= code.size(); ++i) {
    if (code[i] != 0x80 || (code[i + 1] & 0xf8) != 0x78) continue;  // cmp byte [reg + disp8], imm8
    const bool sib = (code[i + 1] & 7) == 4;
    const size_t at = i + (sib ? 3 : 2);
    if (at + 2 <= code.size() && code[at] == kReentrancyField && code[at + 1] == 0) return true;
  }
  return false;
}

}  // namespace

std::vector<InlinedEvent> FindInlinedEvents(std::span<const uint8_t> code) {
  if (!MayHoldEvent(code)) return {};
  std::vector<Step> steps;
  Decoded decoded;
  for (std::span<const uint8_t> rest = code; !rest.empty();) {
    const size_t at = code.size() - rest.size();
    if (!DecodeNext(&rest, &decoded)) break;  // data, or the end
    steps.push_back(Understand(decoded, at));
  }
  std::vector<InlinedEvent> found;
  const std::span<const Step> all(steps);
  for (size_t i = 0; i < all.size(); ++i) {
    const Step& store = all[i];
    if (store.does != Step::Does::kStores || store.base == store.value || store.field <= 0 ||
        store.field > kLargestField) {
      continue;
    }
    const size_t first = i - std::min(i, kBefore);
    if (!ComesFrom(all.subspan(first, i - first), store) ||
        !IsFollowed(all.subspan(i + 1, std::min(kAfter, all.size() - i - 1)), store)) {
      continue;
    }
    found.push_back({.offset = store.offset,
                     .value_register = static_cast<uint8_t>(ZydisRegisterGetId(store.value)),
                     .thread_register = static_cast<uint8_t>(ZydisRegisterGetId(store.base)),
                     .last_event = static_cast<int32_t>(store.field)});
  }
  return found;
}

}  // namespace profd
