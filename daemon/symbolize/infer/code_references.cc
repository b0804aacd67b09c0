#include "daemon/symbolize/infer/code_references.h"

#include <Zydis/Zydis.h>
#include <sys/syscall.h>

#include <array>
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
// The same size: call and jmp by a 32-bit distance.
constexpr uint8_t kCall = 0xe8;
constexpr uint8_t kJump = 0xe9;

// Operations of a private futex that wait: FUTEX_WAIT and FUTEX_WAIT_BITSET.
constexpr uint64_t kFutexWait = 0x80;
constexpr uint64_t kFutexWaitBitset = 0x89;
// The arguments of a call are loaded by instructions that follow each other.
constexpr size_t kCallSetup = 12;

// Recognizes a wait for a futex by the constants of the call: the number of the system call in edi
// and the operation in edx for libc's syscall(), or in eax and esi for the instruction. A call that
// wakes has another operation.
class FutexWaits {
 public:
  // True when the instruction completes such a call's arguments.
  bool See(const ZydisDecodedInstruction& instruction) {
    ++now_;
    if (instruction.length != kMovSize || (instruction.opcode & kMovConstantMask) != kMovConstant) {
      return false;
    }
    const uint64_t value = instruction.raw.imm[0].value.u;
    const int reg = instruction.opcode - kMovConstant;
    if (value == SYS_futex && (reg == kEdi || reg == kEax)) number_ = now_;
    if ((value == kFutexWait || value == kFutexWaitBitset) && (reg == kEdx || reg == kEsi)) {
      operation_ = now_;
    }
    return number_ != 0 && operation_ != 0 && now_ - number_ <= kCallSetup &&
           now_ - operation_ <= kCallSetup;
  }

 private:
  static constexpr int kEax = 0;
  static constexpr int kEdx = 2;
  static constexpr int kEsi = 6;
  static constexpr int kEdi = 7;
  size_t now_ = 0;  // counts instructions
  size_t number_ = 0;
  size_t operation_ = 0;
};

constexpr std::array<bool, 256> Opcodes() {
  std::array<bool, 256> opcodes = {};
  for (const uint8_t opcode : {kLea, kCall, kJump}) opcodes[opcode] = true;
  for (size_t reg = 0; reg < 8; ++reg) opcodes[kMovConstant + reg] = true;
  return opcodes;
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
  FutexWaits futex_waits;
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
    found.futex_wait |= futex_waits.See(instruction);
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

void ForEachReference(std::span<const uint8_t> code, uint64_t address,
                      absl::FunctionRef<void(uint64_t target)> loaded,
                      absl::FunctionRef<void(uint64_t target)> called) {
  static constexpr std::array<bool, 256> kOpcodes = Opcodes();
  const auto distance = [&](size_t at) {
    int32_t value;
    std::memcpy(&value, &code[at], sizeof(value));
    return static_cast<uint64_t>(int64_t{value});
  };
  for (size_t at = 0; at + kMovSize <= code.size(); ++at) {
    const uint8_t opcode = code[at];
    if (!kOpcodes[opcode]) continue;
    if (opcode == kLea) {
      if (at == 0 || (code[at - 1] & kRexWMask) != kRexW || at + kLeaRest > code.size() ||
          (code[at + 1] & kRipOperandMask) != kRipOperand) {
        continue;
      }
      loaded(address + at + kLeaRest + distance(at + 2));
    } else if (opcode == kCall || opcode == kJump) {
      called(address + at + kMovSize + distance(at + 1));
    } else {
      loaded(static_cast<uint32_t>(distance(at + 1)));
    }
  }
}

}  // namespace profd::symbolize
