#include "daemon/heap/inlined_events.h"

#include <algorithm>
#include <array>
#include <set>

#include "daemon/heap/instructions.h"
#include "daemon/heap/probe_point.h"

namespace profd {
namespace {

// Most instructions between the subtraction and the store, and between the store and the
// comparisons.
constexpr size_t kBefore = 4;
constexpr size_t kAfter = 8;
// The data of a thread is a few kilobytes.
constexpr int64_t kLargestField = 1 << 16;
constexpr int64_t kReentrancyField = 1;
constexpr int64_t kNominalStates = 2;

// The jump targets within a function, as offsets in its code.
struct Jumps {
  std::set<uint64_t> targets;
  bool all_known = true;
};

// The relevant properties of an instruction.
struct Step {
  enum class Does : uint8_t {
    kOther,
    kCopies,
    kSubtracts,
    kStores,
    kComparesState,
    kComparesReentrancy
  };
  Does does = Does::kOther;
  ZydisRegister value = ZYDIS_REGISTER_NONE;
  ZydisRegister base = ZYDIS_REGISTER_NONE;  // none: any; for a copy: its source
  int64_t field = 0;
  uint64_t offset = 0;
  uint16_t writes = 0;       // general registers, one bit each
  bool leaves = false;       // execution may continue elsewhere
  bool is_emulated = false;  // by the kernel, at a probe
};

uint8_t NumberOf(ZydisRegister reg) { return static_cast<uint8_t>(ZydisRegisterGetId(reg)); }

uint16_t BitOf(ZydisRegister reg) {
  reg = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);
  if (ZydisRegisterGetClass(reg) != ZYDIS_REGCLASS_GPR64) return 0;
  return static_cast<uint16_t>(1U << ZydisRegisterGetId(reg));
}

uint16_t WrittenBy(const Decoded& decoded) {
  uint16_t written = 0;
  for (size_t i = 0; i < decoded.instruction.operand_count; ++i) {
    const ZydisDecodedOperand& operand = decoded.operands[i];
    if (operand.type != ZYDIS_OPERAND_TYPE_REGISTER) continue;
    if ((operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) == 0) continue;
    written |= BitOf(operand.reg.value);
  }
  return written;
}

bool Leaves(const ZydisDecodedInstruction& instruction) {
  switch (instruction.meta.category) {
    case ZYDIS_CATEGORY_CALL:
    case ZYDIS_CATEGORY_COND_BR:
    case ZYDIS_CATEGORY_UNCOND_BR:
    case ZYDIS_CATEGORY_RET:
    case ZYDIS_CATEGORY_SYSCALL:
    case ZYDIS_CATEGORY_INTERRUPT:
      return true;
    default:
      return false;
  }
}

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
  step.writes = WrittenBy(decoded);
  step.leaves = Leaves(instruction);
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
      if (!IsWhole(from)) return step;
      if (IsWhole(to)) {
        step.does = Step::Does::kCopies;
        step.value = to.reg.value;
        step.base = from.reg.value;
      } else if (IsFieldOf(to, 64)) {
        at(to);
        step.does = Step::Does::kStores;
        step.value = from.reg.value;
      }
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

// Index of the subtraction among the steps before the store with index `store`; `store` if there is
// none.
size_t FindSubtraction(std::span<const Step> all, size_t store) {
  for (size_t i = store; i > 0 && store - (i - 1) <= kBefore; --i) {
    const Step& step = all[i - 1];
    if (step.does == Step::Does::kSubtracts && step.base == all[store].base &&
        step.field == all[store].field && step.value != all[store].value) {
      return i - 1;
    }
  }
  return store;
}

// Index of the next jump after the store, if the kernel emulates it, every path to it contains the
// copy of the count, and the registers still hold the values needed. Otherwise `store`.
size_t FindJump(std::span<const Step> all, size_t subtraction, size_t store, const Jumps& jumps) {
  if (!jumps.all_known) return store;
  const ZydisRegister growth = all[subtraction].value;
  const uint16_t kept = BitOf(all[store].value) | BitOf(all[store].base);
  size_t copy = subtraction;
  for (size_t i = subtraction; i > 0 && subtraction - (i - 1) <= kBefore; --i) {
    const Step& step = all[i - 1];
    if (step.does == Step::Does::kCopies && step.value == growth && step.base == all[store].value) {
      copy = i - 1;
      break;
    }
  }
  if (copy == subtraction) return store;
  for (size_t i = copy + 1; i < all.size() && i <= store + kAfter; ++i) {
    const Step& step = all[i];
    if (jumps.targets.contains(step.offset)) return store;
    if (step.leaves) return i > store && step.is_emulated ? i : store;
    const uint16_t spoilt = i == subtraction ? kept : kept | BitOf(growth);
    if ((step.writes & spoilt) != 0) return store;
  }
  return store;
}

bool IsFollowed(std::span<const Step> after, const Step& store) {
  const auto has = [&](Step::Does does) {
    return std::any_of(after.begin(), after.end(), [&](const Step& step) {
      return step.does == does && (step.base == store.base || step.base == ZYDIS_REGISTER_NONE);
    });
  };
  return has(Step::Does::kComparesState) && has(Step::Does::kComparesReentrancy);
}

// Whether `code` may contain the comparison of the byte [reg + 1] with 0. Saves decoding most
// functions.
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
  Jumps jumps;
  Decoded decoded;
  for (std::span<const uint8_t> rest = code; !rest.empty();) {
    const size_t at = code.size() - rest.size();
    const bool is_emulated = IsEmulated(rest);
    if (!DecodeNext(&rest, &decoded)) {  // data, or the end
      jumps.all_known = false;
      break;
    }
    Step& step = steps.emplace_back(Understand(decoded, at));
    step.is_emulated = is_emulated;
    const std::optional<uint64_t> target = TargetOf(decoded, code.size() - rest.size());
    if (target) {
      jumps.targets.insert(*target);
    } else if (decoded.instruction.meta.category == ZYDIS_CATEGORY_UNCOND_BR) {
      jumps.all_known = false;
    }
  }
  std::vector<InlinedEvent> found;
  const std::span<const Step> all(steps);
  for (size_t i = 0; i < all.size(); ++i) {
    const Step& store = all[i];
    if (store.does != Step::Does::kStores || store.base == store.value || store.field <= 0 ||
        store.field > kLargestField) {
      continue;
    }
    const size_t subtraction = FindSubtraction(all, i);
    if (subtraction == i ||
        !IsFollowed(all.subspan(i + 1, std::min(kAfter, all.size() - i - 1)), store)) {
      continue;
    }
    const size_t jump = FindJump(all, subtraction, i, jumps);
    InlinedEvent event = {.offset = all[jump].offset,
                          .value_register = NumberOf(store.value),
                          .growth_register = std::nullopt,
                          .thread_register = NumberOf(store.base),
                          .last_event = static_cast<int32_t>(store.field)};
    if (jump != i) event.growth_register = NumberOf(all[subtraction].value);
    found.push_back(event);
  }
  return found;
}

}  // namespace profd
