#include "daemon/heap/object_shape.h"

#include <algorithm>
#include <array>

#include "daemon/heap/instructions.h"

namespace profd {
namespace {

// prof_tctx_t: four counts, and a flag for an object that is about to be sampled.
constexpr int64_t kCounts = 0x20;
constexpr size_t kCountWords = 4;
constexpr int64_t kPreparedField = 0x80;
// prof_info_t
constexpr int64_t kContextField = 8;
// The context is loaded from the info within this many instructions.
constexpr size_t kEntryInstructions = 24;

// The known value of a register.
enum class Value : uint8_t {
  kUnknown,
  kContext,      // the fifth argument
  kInfo,         // the third or the fourth
  kInfoContext,  // [info + 8]
  kThread,       // [context]
  kInfoThread,
};

// What a function does with a context.
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

// Steps through a function in address order, whatever its control flow: values that live across
// calls are in the same registers on all paths.
class Lines {
 public:
  Lines() {
    registers_.Set(ZYDIS_REGISTER_R8, Value::kContext);
    registers_.Set(ZYDIS_REGISTER_RDX, Value::kInfo);
    registers_.Set(ZYDIS_REGISTER_RCX, Value::kInfo);
  }

  void Step(const Decoded& decoded) {
    const ZydisDecodedInstruction& instruction = decoded.instruction;
    for (size_t i = 0; i < instruction.operand_count; ++i) Note(decoded, decoded.operands[i]);
    // A function epilogue; code after it is reached from before it.
    if (instruction.mnemonic == ZYDIS_MNEMONIC_POP) return;
    const ZydisDecodedOperand& to = decoded.operands[0];
    const bool is_move = instruction.mnemonic == ZYDIS_MNEMONIC_MOV &&
                         to.type == ZYDIS_OPERAND_TYPE_REGISTER && to.size == 64;
    const Value moved = is_move ? ValueOf(decoded.operands[1]) : Value::kUnknown;
    registers_.ForgetWritten(decoded);
    if (is_move) registers_.Set(to.reg.value, moved);
    has_info_context_ = has_info_context_ || moved == Value::kInfoContext;
  }

  bool has_info_context() const { return has_info_context_; }

  ObjectShape Shape() const {
    if (born_.Counts() && born_.clears_prepared) return ObjectShape::kBorn;
    return gone_.Counts() ? ObjectShape::kGone : ObjectShape::kNone;
  }

 private:
  Value ValueOf(const ZydisDecodedOperand& operand) const {
    if (operand.type == ZYDIS_OPERAND_TYPE_REGISTER) return registers_.Get(operand.reg.value);
    if (!IsField(operand)) return Value::kUnknown;
    const int64_t displacement = Displacement(operand);
    switch (registers_.Get(operand.mem.base)) {
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

  // Notes what the instruction does to one of its operands.
  void Note(const Decoded& decoded, const ZydisDecodedOperand& operand) {
    if (!IsField(operand)) return;
    const int64_t begin = Displacement(operand);
    switch (registers_.Get(operand.mem.base)) {
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

  Registers<Value> registers_;
  Deeds born_, gone_;
  bool has_info_context_ = false;
};

// Displacement and constant of the instruction that clears the field. Most functions have no such
// bytes.
bool MayClearPrepared(std::span<const uint8_t> code) {
  static constexpr std::array<uint8_t, 5> kBytes = {0x80, 0, 0, 0, 0};
  return std::search(code.begin(), code.end(), kBytes.begin(), kBytes.end()) != code.end();
}

}  // namespace

ObjectShape ShapeOfObjectFunction(std::span<const uint8_t> code) {
  code = code.first(std::min(code.size(), kObjectShapeBytes));
  const bool may_be_born = MayClearPrepared(code);
  Lines lines;
  Decoded decoded;
  for (size_t i = 0; !code.empty(); ++i) {
    if (i == kEntryInstructions && !may_be_born && !lines.has_info_context()) break;
    if (!DecodeNext(&code, &decoded)) break;
    lines.Step(decoded);
  }
  return lines.Shape();
}

}  // namespace profd
