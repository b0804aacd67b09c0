#include "daemon/heap/object_shape.h"

#include <Zydis/Zydis.h>

#include <algorithm>
#include <array>

namespace profd {
namespace {

// prof_tctx_t: four counts, and further on whether an object of it is about to be sampled.
constexpr int64_t kCounts = 0x20;
constexpr size_t kCountWords = 4;
constexpr int64_t kPreparedField = 0x80;
// prof_info_t
constexpr int64_t kContextField = 8;
// The context is taken from the info within so many instructions.
constexpr size_t kEntryInstructions = 24;

// What a register is known to hold.
enum class Value : uint8_t {
  kUnknown,
  kContext,      // the fifth argument
  kInfo,         // the third or the fourth
  kInfoContext,  // [info + 8]
  kThread,       // [context]
  kInfoThread,
};

// What a function does with one context.
struct Deeds {
  std::array<bool, kCountWords> reads = {}, writes = {};
  bool locks = false;
  bool clears_prepared = false;

  bool Counts() const {
    const auto all = [](const auto& words) {
      return std::all_of(words.begin(), words.end(), [](bool word) { return word; });
    };
    return locks && all(reads) && all(writes);
  }
};

struct Decoded {
  ZydisDecodedInstruction instruction;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];  // hidden ones too
};

int64_t Displacement(const ZydisDecodedOperand& operand) {
  return operand.mem.disp.has_displacement ? operand.mem.disp.value : 0;
}

// A field of what a register points to.
bool IsField(const ZydisDecodedOperand& operand) {
  return operand.type == ZYDIS_OPERAND_TYPE_MEMORY && operand.mem.type == ZYDIS_MEMOP_TYPE_MEM &&
         operand.mem.index == ZYDIS_REGISTER_NONE && operand.mem.segment != ZYDIS_REGISTER_FS &&
         operand.mem.segment != ZYDIS_REGISTER_GS;
}

bool IsCalleeSaved(ZydisRegister reg) {
  switch (reg) {
    case ZYDIS_REGISTER_RBX:
    case ZYDIS_REGISTER_RBP:
    case ZYDIS_REGISTER_R12:
    case ZYDIS_REGISTER_R13:
    case ZYDIS_REGISTER_R14:
    case ZYDIS_REGISTER_R15:
      return true;
    default:
      return false;
  }
}

// Goes through a function line by line, whichever way control goes: what is kept over calls is kept
// in the same registers on all ways.
class Lines {
 public:
  Lines() {
    Set(ZYDIS_REGISTER_R8, Value::kContext);
    Set(ZYDIS_REGISTER_RDX, Value::kInfo);
    Set(ZYDIS_REGISTER_RCX, Value::kInfo);
  }

  void Step(const Decoded& decoded) {
    const ZydisDecodedInstruction& instruction = decoded.instruction;
    for (size_t i = 0; i < instruction.operand_count; ++i) Note(decoded, decoded.operands[i]);
    // The end of one way out of the function; what follows is reached before it.
    if (instruction.mnemonic == ZYDIS_MNEMONIC_POP) return;
    const ZydisDecodedOperand& to = decoded.operands[0];
    const bool is_move = instruction.mnemonic == ZYDIS_MNEMONIC_MOV &&
                         to.type == ZYDIS_OPERAND_TYPE_REGISTER && to.size == 64;
    const Value moved = is_move ? ValueOf(decoded.operands[1]) : Value::kUnknown;
    for (size_t i = 0; i < instruction.operand_count; ++i) {
      const ZydisDecodedOperand& operand = decoded.operands[i];
      if (operand.type == ZYDIS_OPERAND_TYPE_REGISTER &&
          (operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0) {
        Set(operand.reg.value, Value::kUnknown);
      }
    }
    if (instruction.meta.category == ZYDIS_CATEGORY_CALL) ForgetCallerSaved();
    if (is_move) Set(to.reg.value, moved);
    has_info_context_ = has_info_context_ || moved == Value::kInfoContext;
  }

  bool has_info_context() const { return has_info_context_; }

  ObjectShape Shape() const {
    if (born_.Counts() && born_.clears_prepared) return ObjectShape::kBorn;
    return gone_.Counts() ? ObjectShape::kGone : ObjectShape::kNone;
  }

 private:
  Value Get(ZydisRegister reg) const {
    if (ZydisRegisterGetClass(reg) != ZYDIS_REGCLASS_GPR64) return Value::kUnknown;
    return values_[static_cast<size_t>(ZydisRegisterGetId(reg))];
  }

  void Set(ZydisRegister reg, Value value) {
    reg = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);
    if (ZydisRegisterGetClass(reg) != ZYDIS_REGCLASS_GPR64) return;
    values_[static_cast<size_t>(ZydisRegisterGetId(reg))] = value;
  }

  void ForgetCallerSaved() {
    for (int i = 0; i < 16; ++i) {
      const auto reg = static_cast<ZydisRegister>(ZYDIS_REGISTER_RAX + i);
      if (!IsCalleeSaved(reg)) Set(reg, Value::kUnknown);
    }
  }

  Value ValueOf(const ZydisDecodedOperand& operand) const {
    if (operand.type == ZYDIS_OPERAND_TYPE_REGISTER) return Get(operand.reg.value);
    if (!IsField(operand)) return Value::kUnknown;
    const int64_t displacement = Displacement(operand);
    switch (Get(operand.mem.base)) {
      case Value::kInfo:
        return displacement == kContextField ? Value::kInfoContext : Value::kUnknown;
      case Value::kContext:
        return displacement == 0 ? Value::kThread : Value::kUnknown;
      case Value::kInfoContext:
        return displacement == 0 ? Value::kInfoThread : Value::kUnknown;
      case Value::kUnknown:
      case Value::kThread:
      case Value::kInfoThread:
        return Value::kUnknown;
    }
    return Value::kUnknown;
  }

  // Enters what the instruction does to one of its operands.
  void Note(const Decoded& decoded, const ZydisDecodedOperand& operand) {
    if (!IsField(operand)) return;
    const int64_t begin = Displacement(operand);
    switch (Get(operand.mem.base)) {
      case Value::kThread:
        born_.locks = born_.locks || begin == 0;
        return;
      case Value::kInfoThread:
        gone_.locks = gone_.locks || begin == 0;
        return;
      case Value::kContext:
        NoteField(decoded, operand, begin, born_);
        return;
      case Value::kInfoContext:
        NoteField(decoded, operand, begin, gone_);
        return;
      case Value::kUnknown:
      case Value::kInfo:
        return;
    }
  }

  static void NoteField(const Decoded& decoded, const ZydisDecodedOperand& operand, int64_t begin,
                        Deeds& deeds) {
    const bool reads = (operand.actions & ZYDIS_OPERAND_ACTION_MASK_READ) != 0;
    const bool writes = (operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0;
    const int64_t end = begin + operand.size / 8;
    for (size_t i = 0; i < kCountWords; ++i) {
      const int64_t word = kCounts + 8 * static_cast<int64_t>(i);
      if (begin > word || end < word + 8) continue;
      deeds.reads[i] = deeds.reads[i] || reads;
      deeds.writes[i] = deeds.writes[i] || writes;
    }
    const ZydisDecodedOperand& from = decoded.operands[1];
    if (decoded.instruction.mnemonic == ZYDIS_MNEMONIC_MOV && writes && begin == kPreparedField &&
        operand.size == 8 && from.type == ZYDIS_OPERAND_TYPE_IMMEDIATE && from.imm.value.u == 0) {
      deeds.clears_prepared = true;
    }
  }

  std::array<Value, 16> values_ = {};
  Deeds born_, gone_;
  bool has_info_context_ = false;
};

// The displacement and the constant of what clears the field: most functions have no such bytes.
bool MayClearPrepared(std::span<const uint8_t> code) {
  static constexpr std::array<uint8_t, 5> kBytes = {0x80, 0, 0, 0, 0};
  return std::search(code.begin(), code.end(), kBytes.begin(), kBytes.end()) != code.end();
}

ZydisDecoder MakeDecoder() {
  ZydisDecoder decoder;
  ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  return decoder;
}

}  // namespace

ObjectShape ShapeOfObjectFunction(std::span<const uint8_t> code) {
  static const ZydisDecoder decoder = MakeDecoder();
  code = code.first(std::min(code.size(), kObjectShapeBytes));
  const bool may_be_born = MayClearPrepared(code);
  Lines lines;
  Decoded decoded;
  for (size_t i = 0; !code.empty(); ++i) {
    if (i == kEntryInstructions && !may_be_born && !lines.has_info_context()) break;
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code.data(), code.size(),
                                             &decoded.instruction, decoded.operands))) {
      break;
    }
    lines.Step(decoded);
    code = code.subspan(decoded.instruction.length);
  }
  return lines.Shape();
}

}  // namespace profd
