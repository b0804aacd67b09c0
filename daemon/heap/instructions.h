// Decodes x86-64 instructions, and tracks what is known about registers.
#ifndef PROFD_DAEMON_HEAP_INSTRUCTIONS_H_
#define PROFD_DAEMON_HEAP_INSTRUCTIONS_H_

#include <Zydis/Zydis.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace profd {

struct Decoded {
  ZydisDecodedInstruction instruction;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];  // including hidden ones
};

// Decodes and removes the first instruction of `code`. False for data and at the end.
bool DecodeNext(std::span<const uint8_t>* code, Decoded* decoded);

// The target of a jump or call with a constant target, as an offset; the instruction ends at offset
// `end`. The target may be outside of the code, and negative as an unsigned number.
std::optional<uint64_t> TargetOf(const Decoded& decoded, uint64_t end);

// Whether it is memory relative to a register, and not in the thread's own segment.
bool IsField(const ZydisDecodedOperand& operand);
// The displacement of a memory operand; 0 without one.
int64_t Displacement(const ZydisDecodedOperand& operand);

// The known values of the 16 general registers; Value{} is unknown. A write to part of a register
// makes it unknown.
template <typename Value>
class Registers {
 public:
  Value Get(ZydisRegister reg) const {
    if (ZydisRegisterGetClass(reg) != ZYDIS_REGCLASS_GPR64) return Value{};
    return values_[static_cast<uint8_t>(ZydisRegisterGetId(reg))];
  }

  void Set(ZydisRegister reg, Value value) {
    reg = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);
    if (ZydisRegisterGetClass(reg) != ZYDIS_REGCLASS_GPR64) return;
    values_[static_cast<uint8_t>(ZydisRegisterGetId(reg))] = value;
  }

  // Forgets what the instruction writes; after a call also the caller-saved registers.
  void ForgetWritten(const Decoded& decoded) {
    for (size_t i = 0; i < decoded.instruction.operand_count; ++i) {
      const ZydisDecodedOperand& operand = decoded.operands[i];
      if (operand.type == ZYDIS_OPERAND_TYPE_REGISTER &&
          (operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0) {
        Set(operand.reg.value, Value{});
      }
    }
    if (decoded.instruction.meta.category != ZYDIS_CATEGORY_CALL) return;
    for (const ZydisRegister reg : {ZYDIS_REGISTER_RAX, ZYDIS_REGISTER_RCX, ZYDIS_REGISTER_RDX,
                                    ZYDIS_REGISTER_RSI, ZYDIS_REGISTER_RDI, ZYDIS_REGISTER_R8,
                                    ZYDIS_REGISTER_R9, ZYDIS_REGISTER_R10, ZYDIS_REGISTER_R11}) {
      Set(reg, Value{});
    }
  }

  bool KnowsNothing() const {
    return std::all_of(values_.begin(), values_.end(),
                       [](Value value) { return value == Value{}; });
  }

 private:
  std::array<Value, 16> values_ = {};
};

}  // namespace profd

#endif  // PROFD_DAEMON_HEAP_INSTRUCTIONS_H_
