#include "daemon/heap/probe_point.h"

#include <algorithm>
#include <array>
#include <optional>

#include "daemon/heap/instructions.h"

namespace profd {
namespace {

// Compilers put a comparison or two before the first push or jump, and a mark for indirect calls.
constexpr size_t kMostPassed = 3;

// Registers that hold arguments, the stack pointer and the frame pointer.
constexpr std::array kHandedOver = {ZYDIS_REGISTER_RSP, ZYDIS_REGISTER_RBP, ZYDIS_REGISTER_RDI,
                                    ZYDIS_REGISTER_RSI, ZYDIS_REGISTER_RDX, ZYDIS_REGISTER_RCX,
                                    ZYDIS_REGISTER_R8,  ZYDIS_REGISTER_R9};

// Whether an instruction leaves these registers unchanged and execution continues after it.
bool IsHarmless(const Decoded& decoded, Reach reach) {
  // The kernel changes rcx, r11 and rax.
  if (decoded.instruction.mnemonic == ZYDIS_MNEMONIC_SYSCALL) {
    return reach == Reach::kAfterSystemCall;
  }
  switch (decoded.instruction.mnemonic) {
    case ZYDIS_MNEMONIC_TEST:
    case ZYDIS_MNEMONIC_CMP:
    case ZYDIS_MNEMONIC_MOV:
    case ZYDIS_MNEMONIC_LEA:
    case ZYDIS_MNEMONIC_XOR:
    case ZYDIS_MNEMONIC_ENDBR64:
      break;
    default:
      return false;
  }
  return std::none_of(
      decoded.operands, decoded.operands + decoded.instruction.operand_count,
      [](const ZydisDecodedOperand& operand) {
        if ((operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) == 0) return false;
        if (operand.type != ZYDIS_OPERAND_TYPE_REGISTER) return true;
        const ZydisRegister whole =
            ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, operand.reg.value);
        return std::find(kHandedOver.begin(), kHandedOver.end(), whole) != kHandedOver.end();
      });
}

// Whether a jump at or after `from` leads to a place between `first` and `last`.
bool IsJumpedTo(std::span<const uint8_t> code, size_t from, size_t first, size_t last) {
  std::span<const uint8_t> rest = code.subspan(from);
  Decoded decoded;
  while (DecodeNext(&rest, &decoded)) {
    const std::optional<uint64_t> target = TargetOf(decoded, code.size() - rest.size());
    if (target && *target >= first && *target <= last) return true;
  }
  return false;
}

}  // namespace

bool IsEmulated(std::span<const uint8_t> code) {
  const auto is = [&](size_t i, uint8_t low, uint8_t high) {
    return i < code.size() && code[i] >= low && code[i] <= high;
  };
  if (is(0, 0x50, 0x57) || (is(0, 0x41, 0x41) && is(1, 0x50, 0x57))) return true;  // push
  if (is(0, 0x90, 0x90) || is(0, 0xe9, 0xe9) || is(0, 0xeb, 0xeb)) return true;    // nop, jmp
  return is(0, 0x70, 0x7f) || (is(0, 0x0f, 0x0f) && is(1, 0x80, 0x8f));            // jcc
}

ProbePoint ChooseProbePoint(std::span<const uint8_t> code, Reach reach) {
  std::span<const uint8_t> rest = code;
  Decoded decoded;
  for (size_t passed = 0; passed <= kMostPassed && !rest.empty();) {
    const size_t skip = code.size() - rest.size();
    if (IsEmulated(rest)) {
      if (skip > 0 && IsJumpedTo(code, skip, 1, skip)) break;
      return {.skip = skip, .stepped = false};
    }
    if (!DecodeNext(&rest, &decoded) || !IsHarmless(decoded, reach)) break;
    passed += decoded.instruction.mnemonic == ZYDIS_MNEMONIC_ENDBR64 ? 0 : 1;
  }
  return {};
}

absl::StatusOr<ProbePoint> FindProbePoint(const symbolize::ElfFile& elf,
                                          const symbolize::FileRange& code, Reach reach) {
  uint8_t bytes[kProbePointBytes];
  const auto size = static_cast<size_t>(std::min<uint64_t>(code.size, sizeof(bytes)));
  RETURN_IF_ERROR(elf.Read(code.offset, bytes, size));
  return ChooseProbePoint({bytes, size}, reach);
}

}  // namespace profd
