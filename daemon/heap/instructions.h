// x86-64 instructions one after another, and what is known of the registers between them.
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
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];  // hidden ones too
};

// Takes the first instruction of `code` away. False for what is none: data, or the end.
bool DecodeNext(std::span<const uint8_t>* code, Decoded* decoded);

// Where a jump or call goes whose target is a constant, in the offsets in which it ends at `end`.
// May lie outside of the code, and be negative as an unsigned number.
std::optional<uint64_t> TargetOf(const Decoded& decoded, uint64_t end);

// A field of what a register points to; not of the thread's own segment.
bool IsField(const ZydisDecodedOperand& operand);
// Of a memory operand; 0 without one.
int64_t Displacement(const ZydisDecodedOperand& operand);

// What the 16 general registers are known to hold; Value{} is nothing. Only whole ones are known: a
// write to a part makes it unknown.
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

  // What the instruction writes; after a call also what a function need not keep.
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
