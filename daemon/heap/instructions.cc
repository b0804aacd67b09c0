#include "daemon/heap/instructions.h"

namespace profd {
namespace {

ZydisDecoder MakeDecoder() {
  ZydisDecoder decoder;
  ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  return decoder;
}

}  // namespace

bool DecodeNext(std::span<const uint8_t>* code, Decoded* decoded) {
  static const ZydisDecoder decoder = MakeDecoder();
  if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code->data(), code->size(),
                                           &decoded->instruction, decoded->operands))) {
    return false;
  }
  *code = code->subspan(decoded->instruction.length);
  return true;
}

std::optional<uint64_t> TargetOf(const Decoded& decoded, uint64_t end) {
  const ZydisDecodedOperand& operand = decoded.operands[0];
  if (decoded.instruction.operand_count == 0 || operand.type != ZYDIS_OPERAND_TYPE_IMMEDIATE ||
      !operand.imm.is_relative) {
    return std::nullopt;
  }
  return end + static_cast<uint64_t>(operand.imm.value.s);
}

bool IsField(const ZydisDecodedOperand& operand) {
  return operand.type == ZYDIS_OPERAND_TYPE_MEMORY && operand.mem.type == ZYDIS_MEMOP_TYPE_MEM &&
         operand.mem.index == ZYDIS_REGISTER_NONE && operand.mem.segment != ZYDIS_REGISTER_FS &&
         operand.mem.segment != ZYDIS_REGISTER_GS;
}

int64_t Displacement(const ZydisDecodedOperand& operand) {
  return operand.mem.disp.has_displacement ? operand.mem.disp.value : 0;
}

}  // namespace profd
