#include "daemon/symbolize/infer/code_references.h"

#include <Zydis/Zydis.h>
#include <sys/syscall.h>

#include <cstddef>
#include <cstring>

namespace profd::symbolize {
namespace {

// lea REG, [rip + disp32]: REX.W, the opcode, ModRM with mod 0 and rm 5, and the displacement.
constexpr uint8_t kRexW = 0x48;
constexpr uint8_t kRexWMask = 0xfb;  // without REX.R
constexpr uint8_t kLea = 0x8d;
constexpr uint8_t kRipOperand = 0x05;
constexpr uint8_t kRipOperandMask = 0xc7;
constexpr size_t kLeaRest = 6;  // opcode, ModRM and displacement
// mov REG, imm32, as programs at a fixed address use it.
constexpr uint8_t kMovConstant = 0xb8;
constexpr uint8_t kMovConstantMask = 0xf8;
constexpr size_t kMovSize = 5;

// mov edi, SYS_futex for libc's syscall(), or mov eax, SYS_futex for the instruction.
bool IsFutexNumber(const ZydisDecodedInstruction& instruction) {
  constexpr uint8_t kMovEax = kMovConstant;
  constexpr uint8_t kMovEdi = kMovConstant + 7;
  return instruction.length == kMovSize && instruction.raw.imm[0].value.u == SYS_futex &&
         (instruction.opcode == kMovEax || instruction.opcode == kMovEdi);
}

ZydisDecoder MakeDecoder() {
  ZydisDecoder decoder;
  ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  return decoder;
}

}  // namespace

CodeReferences FindReferences(std::span<const uint8_t> code, uint64_t address) {
  static const ZydisDecoder decoder = MakeDecoder();
  CodeReferences found;
  const uint64_t size = code.size();
  ZydisDecodedInstruction instruction;
  for (uint64_t at = 0; at < size;) {
    // Operands are not decoded: the raw fields are enough, and it takes a third of the time.
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, nullptr, code.data() + at, size - at,
                                                    &instruction))) {
      ++at;
      continue;
    }
    at += instruction.length;
    const uint64_t next = address + at;
    const auto& immediate = instruction.raw.imm[0];
    found.pauses |= instruction.mnemonic == ZYDIS_MNEMONIC_PAUSE;
    found.futex |= IsFutexNumber(instruction);
    if (immediate.is_relative == ZYAN_FALSE || immediate.size == 0) continue;
    const uint64_t target = next + static_cast<uint64_t>(immediate.value.s);
    if (instruction.mnemonic == ZYDIS_MNEMONIC_CALL) {
      found.calls.push_back(target);
    } else if (target - address >= size) {
      found.jumps.push_back(target);
    }
  }
  return found;
}

void ForEachDataLoad(std::span<const uint8_t> code, uint64_t address,
                     absl::FunctionRef<void(uint64_t target)> found) {
  for (size_t at = 0; at + kMovSize <= code.size(); ++at) {
    if (code[at] == kLea) {
      if (at == 0 || (code[at - 1] & kRexWMask) != kRexW || at + kLeaRest > code.size() ||
          (code[at + 1] & kRipOperandMask) != kRipOperand) {
        continue;
      }
      int32_t displacement;
      std::memcpy(&displacement, &code[at + 2], sizeof(displacement));
      found(address + at + kLeaRest + static_cast<uint64_t>(int64_t{displacement}));
    } else if ((code[at] & kMovConstantMask) == kMovConstant) {
      uint32_t constant;
      std::memcpy(&constant, &code[at + 1], sizeof(constant));
      found(constant);
    }
  }
}

}  // namespace profd::symbolize
