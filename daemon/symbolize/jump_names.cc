#include "daemon/symbolize/jump_names.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "daemon/symbolize/elf_symbols.h"

namespace profd::symbolize {
namespace {

// A larger function has work of its own, and where it jumps to says little.
constexpr uint64_t kMaxJumper = 512;
// glibc has 1,500 of them. With more, reading them would take too long.
constexpr size_t kMaxJumpers = 16'384;
// A function that more than these jump to is a helper of them all.
constexpr size_t kMaxCallers = 4;
constexpr size_t kMaxNameBytes = 255;

// Code that is searched for calls. glibc has 1.5 MiB.
constexpr uint64_t kMaxCode = 16 << 20;

// call rel32, jmp rel32, and the second byte of jCC rel32 (0f 80 to 0f 8f).
constexpr char kCall = '\xe8';
constexpr uint8_t kJump = 0xe9;
constexpr uint8_t kTwoBytes = 0x0f;
constexpr uint8_t kJumpIf = 0x80;
constexpr uint8_t kJumpIfMask = 0xf0;
constexpr size_t kDistanceBytes = 4;

// A name that C gives, and not one of C++ or Rust that is encoded.
bool IsPlain(std::string_view name) {
  return !name.empty() && !name.starts_with("_Z") && !name.starts_with("_R") &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return absl::ascii_isalnum(c) || c == '_'; });
}

// Calls `visit` with the address of each place that `code` seems to jump to. It does not decode:
// bytes that only look like a jump do not lead to the exact begin of a function.
template <typename Visit>
void ForEachJump(std::span<const uint8_t> code, uint64_t address, Visit visit) {
  for (size_t at = 0; at + 1 + kDistanceBytes <= code.size(); ++at) {
    const bool conditional =
        at > 0 && code[at - 1] == kTwoBytes && (code[at] & kJumpIfMask) == kJumpIf;
    if (code[at] != kJump && !conditional) continue;
    int32_t distance;
    std::memcpy(&distance, &code[at + 1], sizeof(distance));
    visit(address + at + 1 + kDistanceBytes + static_cast<uint64_t>(int64_t{distance}));
  }
}

using Callers = absl::flat_hash_map<uint64_t, std::vector<const ExportedFunction*>>;  // by begin

// Leaves those out that are called, too: they are helpers, and who jumps there says little. Like
// ForEachJump(), it does not decode. False if there is too much code, or it cannot be read.
bool DropCalled(const ElfFile& elf, Callers* callers) {
  uint64_t code_left = kMaxCode;
  for (const Section& section : elf.sections()) {
    if (section.type != SHT_PROGBITS || !section.Executable()) continue;
    if (section.size > code_left) return false;
    code_left -= section.size;
    const auto visit = [&](uint64_t at, std::string_view bytes) {
      for (size_t i = bytes.find(kCall); i < bytes.size(); i = bytes.find(kCall, i + 1)) {
        if (bytes.size() - i <= kDistanceBytes) break;
        int32_t distance;
        std::memcpy(&distance, &bytes[i + 1], sizeof(distance));
        const uint64_t next = at - section.offset + section.address + i + 1 + kDistanceBytes;
        callers->erase(next + static_cast<uint64_t>(int64_t{distance}));
      }
      return true;
    };
    const FileRange range{.offset = section.offset, .size = section.size};
    if (!elf.ReadPieces(range, kDistanceBytes, visit).ok()) return false;
  }
  return true;
}

}  // namespace

void NameByJumps(const ElfFile& elf, std::span<FoundName> names) {
  if (elf.machine() != EM_X86_64) return;
  Callers callers;
  for (const FoundName& name : names) {
    if (name.source == NameSource::kBounds) callers.try_emplace(name.begin);
  }
  if (callers.empty()) return;
  // By address. The first of several names of a place counts.
  const std::vector<ExportedFunction> exported = ExportedFunctions(elf, kMaxJumper, kMaxJumpers);
  std::array<uint8_t, kMaxJumper> code;
  for (const ExportedFunction& function : exported) {
    const std::optional<FileRange> place = elf.CodeAt(function.address);
    if (!place || place->size < function.size ||
        !elf.Read(place->offset, code.data(), function.size).ok()) {
      continue;
    }
    ForEachJump(std::span(code).first(function.size), function.address, [&](uint64_t target) {
      const auto found = callers.find(target);
      if (found == callers.end() || found->second.size() > kMaxCallers) return;
      if (found->second.empty() || found->second.back() != &function) {
        found->second.push_back(&function);
      }
    });
  }
  absl::erase_if(callers, [](const auto& entry) {
    return entry.second.empty() || entry.second.size() > kMaxCallers;
  });
  // Most code is read for nobody.
  if (callers.empty() || !DropCalled(elf, &callers)) return;
  for (FoundName& name : names) {
    const auto jumpers = callers.find(name.begin);
    if (name.source != NameSource::kBounds || jumpers == callers.end()) continue;
    for (const ExportedFunction* jumper : jumpers->second) {
      std::string caller = elf.ReadString(
          jumper->name.offset, jumper->name.offset + jumper->name.size, kMaxNameBytes + 1);
      if (caller.size() > kMaxNameBytes || !IsPlain(caller)) continue;
      if (!name.symbol.empty() && name.symbol.size() <= caller.size()) continue;
      name.symbol = std::move(caller);
      name.source = NameSource::kInferred;
    }
  }
}

}  // namespace profd::symbolize
