#include "daemon/heap/event_shape.h"

#include <Zydis/Zydis.h>

#include <algorithm>
#include <array>

namespace profd {
namespace {

// gcc and clang have made the store within 18 instructions, whatever the level of optimisation.
constexpr int kMaxInstructions = 24;
static_assert(kEventShapeBytes == kMaxInstructions * ZYDIS_MAX_INSTRUCTION_LENGTH);

constexpr int64_t kCurrentField = 8;
constexpr int64_t kLastEventField = 16;

// What a register is known to hold. The names are those of the header's picture.
enum class Value : uint8_t { kUnknown, kCtx, kP, kQ, kV };

// The 16 general registers. Only whole ones are known: a write to a part makes it unknown.
class Registers {
 public:
  Registers() { Set(ZYDIS_REGISTER_RSI, Value::kCtx); }

  Value Get(ZydisRegister reg) const {
    if (ZydisRegisterGetClass(reg) != ZYDIS_REGCLASS_GPR64) return Value::kUnknown;
    return values_[static_cast<size_t>(ZydisRegisterGetId(reg))];
  }

  void Set(ZydisRegister reg, Value value) {
    reg = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);
    if (ZydisRegisterGetClass(reg) != ZYDIS_REGCLASS_GPR64) return;
    values_[static_cast<size_t>(ZydisRegisterGetId(reg))] = value;
  }

  bool KnowsNothing() const {
    return std::all_of(values_.begin(), values_.end(),
                       [](Value value) { return value == Value::kUnknown; });
  }

 private:
  std::array<Value, 16> values_ = {};
};

struct Decoded {
  ZydisDecodedInstruction instruction;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];  // hidden ones too
};

bool Is64BitMemory(const ZydisDecodedOperand& operand) {
  return operand.type == ZYDIS_OPERAND_TYPE_MEMORY && operand.mem.type == ZYDIS_MEMOP_TYPE_MEM &&
         operand.size == 64 && operand.mem.index == ZYDIS_REGISTER_NONE &&
         operand.mem.segment != ZYDIS_REGISTER_FS && operand.mem.segment != ZYDIS_REGISTER_GS;
}

int64_t Displacement(const ZydisDecodedOperand& operand) {
  return operand.mem.disp.has_displacement ? operand.mem.disp.value : 0;
}

// Whether control never reaches the next instruction.
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

// Follows one path from a function's entry, past branches that need not be taken.
class Path {
 public:
  enum class Verdict : uint8_t { kOpen, kHasShape, kHasNot };

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
    // w is most often not loaded but subtracted at once.
    if (ReadsQ(decoded)) read_q_ = true;
    const Value moved = is_move ? ValueOf(from) : Value::kUnknown;
    ForgetWritten(decoded);
    if (is_move && to.type == ZYDIS_OPERAND_TYPE_REGISTER && to.size == 64) {
      registers_.Set(to.reg.value, moved);
    }
    return registers_.KnowsNothing() ? Verdict::kHasNot : Verdict::kOpen;
  }

 private:
  bool IsQ(const ZydisDecodedOperand& operand, ZydisOperandActions action) const {
    return Is64BitMemory(operand) && (operand.actions & action) != 0 &&
           Displacement(operand) == 0 && registers_.Get(operand.mem.base) == Value::kQ;
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
    if (!Is64BitMemory(operand)) return Value::kUnknown;
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

  void ForgetWritten(const Decoded& decoded) {
    for (size_t i = 0; i < decoded.instruction.operand_count; ++i) {
      const ZydisDecodedOperand& operand = decoded.operands[i];
      if (operand.type == ZYDIS_OPERAND_TYPE_REGISTER &&
          (operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0) {
        registers_.Set(operand.reg.value, Value::kUnknown);
      }
    }
    if (decoded.instruction.meta.category != ZYDIS_CATEGORY_CALL) return;
    for (const ZydisRegister reg : {ZYDIS_REGISTER_RAX, ZYDIS_REGISTER_RCX, ZYDIS_REGISTER_RDX,
                                    ZYDIS_REGISTER_RSI, ZYDIS_REGISTER_RDI, ZYDIS_REGISTER_R8,
                                    ZYDIS_REGISTER_R9, ZYDIS_REGISTER_R10, ZYDIS_REGISTER_R11}) {
      registers_.Set(reg, Value::kUnknown);
    }
  }

  Registers registers_;
  bool read_q_ = false;
};

ZydisDecoder MakeDecoder() {
  ZydisDecoder decoder;
  ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  return decoder;
}

}  // namespace

bool HasEventShape(std::span<const uint8_t> code) {
  static const ZydisDecoder decoder = MakeDecoder();
  Path path;
  Decoded decoded;
  for (int i = 0; i < kMaxInstructions && !code.empty(); ++i) {
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code.data(), code.size(),
                                             &decoded.instruction, decoded.operands))) {
      return false;
    }
    switch (path.Step(decoded)) {
      case Path::Verdict::kHasShape:
        return true;
      case Path::Verdict::kHasNot:
        return false;
      case Path::Verdict::kOpen:
        break;
    }
    code = code.subspan(decoded.instruction.length);
  }
  return false;
}

}  // namespace profd
