#include "daemon/symbolize/plt.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "daemon/symbolize/symbol_name.h"

namespace profd::symbolize {
namespace {

constexpr std::array<std::string_view, 3> kPltNames = {".plt", ".plt.sec", ".plt.got"};
constexpr uint64_t kEntryBytes = 16;
constexpr uint64_t kShortEntryBytes = 8;  // in a .plt.got
// More than any program imports; bounds the time for a table that lies.
constexpr uint64_t kMaxRelocations = 4'000'000;
constexpr size_t kMaxCalledNameBytes = 4096;

// What the code of an entry says about the function it calls.
struct EntryCode {
  std::optional<uint64_t> slot;   // address of the pointer that it jumps through
  std::optional<uint32_t> index;  // of the relocation that it pushes for the dynamic linker
};

// endbr64, bnd, jmp *disp32(%rip), push imm32. x86-64 psABI section 5.2, "Procedure Linkage Table".
EntryCode Decode(std::span<const uint8_t> code, uint64_t address) {
  EntryCode entry;
  size_t at = 0;
  const auto take = [&](std::initializer_list<uint8_t> bytes) {
    if (code.size() - at < bytes.size() ||
        !std::equal(bytes.begin(), bytes.end(), code.begin() + static_cast<ptrdiff_t>(at))) {
      return false;
    }
    at += bytes.size();
    return true;
  };
  const auto word = [&]() -> std::optional<int32_t> {
    int32_t value = 0;
    if (code.size() - at < sizeof(value)) return std::nullopt;
    std::memcpy(&value, code.data() + at, sizeof(value));
    at += sizeof(value);
    return value;
  };
  (void)take({0xf3, 0x0f, 0x1e, 0xfa});
  (void)take({0xf2});
  if (take({0xff, 0x25})) {
    if (const auto distance = word()) {
      entry.slot = address + at + static_cast<uint64_t>(int64_t{*distance});
    }
  } else if (take({0x68})) {
    if (const auto index = word()) entry.index = static_cast<uint32_t>(*index);
  }
  return entry;
}

class PltNames {
 public:
  explicit PltNames(const ElfFile& elf) : elf_(elf) {}

  // The entry around `address`, which lies in `section`.
  void Add(size_t result, const Section& section, uint64_t address, PltEntry& out) {
    const uint64_t size = section.entry_size == kShortEntryBytes ? kShortEntryBytes : kEntryBytes;
    const uint64_t begin = address - (address - section.address) % size;
    out.bounds = {.begin = begin, .end = begin + size};
    std::array<uint8_t, kEntryBytes> code{};
    const std::optional<FileRange> place = elf_.CodeAt(begin);
    if (!place || place->size < size || !elf_.Read(place->offset, code.data(), size).ok()) return;
    const EntryCode entry = Decode(std::span(code).first(size), begin);
    if (entry.slot) by_slot_[*entry.slot].push_back(result);
    if (entry.index) by_index_[*entry.index].push_back(result);
  }

  // Names what was added.
  void Resolve(std::vector<PltEntry>& entries) {
    if (by_slot_.empty() && by_index_.empty()) return;
    uint64_t left = kMaxRelocations;
    for (const Section& section : elf_.sections()) {
      if (section.type != SHT_RELA || section.entry_size != sizeof(Elf64_Rela) ||
          (section.flags & SHF_ALLOC) == 0) {
        continue;
      }
      uint64_t index = 0;
      const uint64_t size = std::min(section.size / sizeof(Elf64_Rela), left) * sizeof(Elf64_Rela);
      left -= size / sizeof(Elf64_Rela);
      // A piece ends within a relocation; the next one repeats it.
      uint64_t next = section.offset;
      (void)elf_.ReadPieces({.offset = section.offset, .size = size}, sizeof(Elf64_Rela) - 1,
                            [&](uint64_t at, std::string_view bytes) {
                              while (next + sizeof(Elf64_Rela) <= at + bytes.size()) {
                                Elf64_Rela relocation;
                                std::memcpy(&relocation, bytes.data() + (next - at),
                                            sizeof(relocation));
                                Visit(section, relocation, index++, entries);
                                next += sizeof(relocation);
                              }
                              return true;
                            });
    }
  }

 private:
  void Visit(const Section& section, const Elf64_Rela& relocation, uint64_t index,
             std::vector<PltEntry>& entries) {
    const auto type = ELF64_R_TYPE(relocation.r_info);
    if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT) return;
    const auto name = [&](const std::vector<size_t>& results) {
      const std::string text =
          SymbolName(section, static_cast<uint32_t>(ELF64_R_SYM(relocation.r_info)));
      for (const size_t result : results) {
        if (entries[result].name.empty()) entries[result].name = text;
      }
    };
    if (const auto it = by_slot_.find(relocation.r_offset); it != by_slot_.end()) name(it->second);
    if (type != R_X86_64_JUMP_SLOT) return;
    if (const auto it = by_index_.find(index); it != by_index_.end()) name(it->second);
  }

  std::string SymbolName(const Section& relocations, uint32_t symbol) const {
    const Section* table = elf_.FindSection(relocations.link);
    if (symbol == 0 || table == nullptr || table->type != SHT_DYNSYM ||
        table->entry_size != sizeof(Elf64_Sym) || symbol >= table->size / sizeof(Elf64_Sym)) {
      return "";
    }
    const Section* strings = elf_.FindSection(table->link);
    Elf64_Sym entry;
    if (strings == nullptr || strings->type != SHT_STRTAB ||
        !elf_.Read(table->offset + symbol * sizeof(entry), &entry, sizeof(entry)).ok() ||
        entry.st_name >= strings->size) {
      return "";
    }
    const std::string name = elf_.ReadString(
        strings->offset + entry.st_name,
        strings->offset + std::min(strings->size, uint64_t{INT64_MAX}), kMaxCalledNameBytes);
    return std::string(WithoutVersion(name));
  }

  const ElfFile& elf_;
  // Indexes of results by what their code refers to.
  absl::flat_hash_map<uint64_t, std::vector<size_t>> by_slot_;
  absl::flat_hash_map<uint64_t, std::vector<size_t>> by_index_;
};

}  // namespace

std::vector<PltEntry> FindPltEntries(const ElfFile& elf, std::span<const uint64_t> addresses) {
  std::vector<PltEntry> entries(addresses.size());
  if (addresses.empty() || elf.machine() != EM_X86_64) return entries;
  PltNames names(elf);
  for (const std::string_view name : kPltNames) {
    const Section* section = elf.FindSectionByName(name);
    if (section == nullptr || section->type == SHT_NOBITS || !section->Executable()) continue;
    for (auto at = std::lower_bound(addresses.begin(), addresses.end(), section->address);
         at != addresses.end() && section->Contains(*at); ++at) {
      const auto result = static_cast<size_t>(at - addresses.begin());
      names.Add(result, *section, *at, entries[result]);
    }
  }
  names.Resolve(entries);
  return entries;
}

}  // namespace profd::symbolize
