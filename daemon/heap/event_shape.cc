#include "daemon/heap/event_shape.h"

#include <algorithm>

#include "daemon/heap/instructions.h"

namespace profd {
namespace {

// gcc and clang emit the store within 18 instructions at every optimisation level.
constexpr int kMaxInstructions = 24;
static_assert(kEventShapeBytes == kMaxInstructions * ZYDIS_MAX_INSTRUCTION_LENGTH);

constexpr int64_t kCurrentField = 8;
constexpr int64_t kLastEventField = 16;

// The known value of a register, named as in the header.
enum class Value : uint8_t { kUnknown, kCtx, kP, kQ, kV };

bool Is64BitField(const ZydisDecodedOperand& operand) {
  return IsField(operand) && operand.size == 64;
}

// Whether execution never reaches the next instruction.
bool EndsStraightLine(const ZydisDecodedInstruction& instruction) {
  switch (instruction.meta.category) {
    case ZYDIS_CATEGORY_RET:
    case ZYDIS_CATEGORY_UNCOND_BR:
    case ZYDIS_CATEGORY_INTERRUPT:
      return true;
    default:
      return instruction.mnemonic == ZYDIS_MNEMONIC_UD0 ||
             instruction.mnemonic == ZYDIS_MNEMONIC_UD1 ||
             instruction.mnemonic == ZYDIS_MNEMONIC_UD2 ||
             instruction.mnemonic == ZYDIS_MNEMONIC_HLT;
  }
}

// Follows one path from a function's entry; takes no conditional branches.
class Path {
 public:
  enum class Verdict : uint8_t { kOpen, kHasShape, kHasNot };

  Path() { registers_.Set(ZYDIS_REGISTER_RSI, Value::kCtx); }

  Verdict Step(const Decoded& decoded) {
    const ZydisDecodedInstruction& instruction = decoded.instruction;
    if (EndsStraightLine(instruction)) return Verdict::kHasNot;
    const ZydisDecodedOperand& to = decoded.operands[0];
    const ZydisDecodedOperand& from = decoded.operands[1];
    const bool is_move = instruction.mnemonic == ZYDIS_MNEMONIC_MOV;

    if (WritesQ(decoded)) {
      const bool stores_v = is_move && from.type == ZYDIS_OPERAND_TYPE_REGISTER &&
                            registers_.Get(from.reg.value) == Value::kV;
      return stores_v && read_q_ ? Verdict::kHasShape : Verdict::kHasNot;
    }
    // Usually w is not loaded but subtracted directly from memory.
    if (ReadsQ(decoded)) read_q_ = true;
    const Value moved = is_move ? ValueOf(from) : Value::kUnknown;
    registers_.ForgetWritten(decoded);
    if (is_move && to.type == ZYDIS_OPERAND_TYPE_REGISTER && to.size == 64) {
      registers_.Set(to.reg.value, moved);
    }
    return registers_.KnowsNothing() ? Verdict::kHasNot : Verdict::kOpen;
  }

 private:
  bool IsQ(const ZydisDecodedOperand& operand, ZydisOperandActions action) const {
    return Is64BitField(operand) && (operand.actions & action) != 0 && Displacement(operand) == 0 &&
           registers_.Get(operand.mem.base) == Value::kQ;
  }

  bool WritesQ(const Decoded& decoded) const {
    return std::any_of(decoded.operands, decoded.operands + decoded.instruction.operand_count,
                       [this](const ZydisDecodedOperand& operand) {
                         return IsQ(operand, ZYDIS_OPERAND_ACTION_MASK_WRITE);
                       });
  }

  bool ReadsQ(const Decoded& decoded) const {
    return std::any_of(decoded.operands, decoded.operands + decoded.instruction.operand_count,
                       [this](const ZydisDecodedOperand& operand) {
                         return IsQ(operand, ZYDIS_OPERAND_ACTION_MASK_READ);
                       });
  }

  Value ValueOf(const ZydisDecodedOperand& operand) const {
    if (operand.type == ZYDIS_OPERAND_TYPE_REGISTER) return registers_.Get(operand.reg.value);
    if (!Is64BitField(operand)) return Value::kUnknown;
    const int64_t displacement = Displacement(operand);
    switch (registers_.Get(operand.mem.base)) {
      case Value::kCtx:
        if (displacement == kCurrentField) return Value::kP;
        if (displacement == kLastEventField) return Value::kQ;
        return Value::kUnknown;
      case Value::kP:
        return displacement == 0 ? Value::kV : Value::kUnknown;
      case Value::kQ:
      case Value::kV:
      case Value::kUnknown:
        return Value::kUnknown;
    }
    return Value::kUnknown;
  }

  Registers<Value> registers_;
  bool read_q_ = false;
};

}  // namespace

bool HasEventShape(std::span<const uint8_t> code) {
  Path path;
  Decoded decoded;
  for (int i = 0; i < kMaxInstructions && !code.empty(); ++i) {
    if (!DecodeNext(&code, &decoded)) return false;
    switch (path.Step(decoded)) {
      case Path::Verdict::kHasShape:
        return true;
      case Path::Verdict::kHasNot:
        return false;
      case Path::Verdict::kOpen:
        break;
    }
  }
  return false;
}

}  // namespace profd
