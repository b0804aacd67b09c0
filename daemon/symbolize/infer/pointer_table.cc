#include "daemon/symbolize/infer/pointer_table.h"

#include <algorithm>
#include <cstring>

namespace profd::symbolize {
namespace {

constexpr uint32_t kSectionRelr = 19;  // SHT_RELR; older headers lack it
constexpr size_t kPieceRelocations = 2048;
// The largest programs have two million relocations, some ten thousand of them by symbol.
constexpr uint64_t kMaxRelocations = 8'000'000;
constexpr size_t kMaxBySymbol = 256 << 10;
constexpr uint64_t kMaxDataBytes = 128 << 20;
constexpr size_t kLoadedPieces = 16;
// Relocations and words that lookups may read: some 0.2 s.
constexpr uint64_t kMaxWork = 32'000'000;
// What the C++ runtime calls the tables of its type descriptions.
constexpr std::string_view kRuntimeTables = "_ZTVN10__cxxabiv1";
constexpr size_t kMaxSymbolName = 128;
// Programs at fixed addresses lie above this, others begin at 0.
constexpr uint64_t kFixedAddress = 0x10000;

// Its addresses are known only when it is loaded. (ElfFile does not keep the type of the file.)
bool IsPositionIndependent(const ElfFile& elf) {
  for (const Segment& segment : elf.segments()) {
    if (segment.type == PT_LOAD) return segment.address < kFixedAddress;
  }
  return false;
}

bool IsAmong(std::span<const uint64_t> targets, uint64_t value) {
  return value >= targets.front() && value <= targets.back() &&
         std::binary_search(targets.begin(), targets.end(), value);
}

}  // namespace

PointerTable::PointerTable(const ElfFile* elf)
    : elf_(elf),
      position_independent_(IsPositionIndependent(*elf)),
      data_(elf),
      loaded_(kLoadedPieces),
      work_left_(kMaxWork) {
  bool relocated = false;
  for (const Section& section : elf->sections()) {
    if (section.type == SHT_DYNSYM && symbols_ == nullptr) symbols_ = &section;
    if (section.type == kSectionRelr) in_place_ = true;
    relocated |= section.type == SHT_RELA && (section.flags & SHF_ALLOC) != 0;
  }
  // A program at fixed addresses has relocations for other files only.
  in_place_ |= !relocated || !position_independent_;
  for (std::pair<size_t, std::vector<Elf64_Rela>>& slot : loaded_) slot.first = SIZE_MAX;
}

std::vector<std::pair<uint64_t, uint64_t>> PointerTable::FindReferences(
    std::span<const uint64_t> targets, size_t limit) {
  std::vector<std::pair<uint64_t, uint64_t>> found;
  if (targets.empty()) return found;
  ScanRelocations(targets, limit, &found);
  if (in_place_) ScanData(targets, limit, &found);
  std::sort(by_symbol_.begin(), by_symbol_.end(),
            [](const BySymbol& a, const BySymbol& b) { return a.place < b.place; });
  ResolveSymbols();
  for (const BySymbol& entry : by_symbol_) {
    const auto value = symbol_values_.find(entry.symbol);
    if (value == symbol_values_.end() || value->second.address == 0) continue;
    const uint64_t address = value->second.address + static_cast<uint64_t>(entry.addend);
    if (found.size() < limit && IsAmong(targets, address)) found.emplace_back(address, entry.place);
  }
  return found;
}

void PointerTable::ScanRelocations(std::span<const uint64_t> targets, size_t limit,
                                   std::vector<std::pair<uint64_t, uint64_t>>* found) {
  std::vector<Elf64_Rela> piece(kPieceRelocations);
  uint64_t left = kMaxRelocations;
  for (const Section& section : elf_->sections()) {
    if (section.type != SHT_RELA || (section.flags & SHF_ALLOC) == 0 ||
        section.entry_size != sizeof(Elf64_Rela)) {
      continue;
    }
    uint64_t count = std::min(section.size / sizeof(Elf64_Rela), left);
    left -= count;
    for (uint64_t offset = section.offset; count > 0;) {
      const auto size = static_cast<size_t>(std::min<uint64_t>(count, kPieceRelocations));
      if (!elf_->Read(offset, piece.data(), size * sizeof(Elf64_Rela)).ok()) break;
      Piece& added = pieces_.emplace_back();
      added.offset = offset;
      added.count = static_cast<uint32_t>(size);
      for (size_t i = 0; i < size; ++i) {
        const Elf64_Rela& entry = piece[i];
        const uint32_t type = ELF64_R_TYPE(entry.r_info);
        if (type == R_X86_64_RELATIVE) {
          added.least = std::min(added.least, entry.r_offset);
          added.most = std::max(added.most, entry.r_offset);
          const auto value = static_cast<uint64_t>(entry.r_addend);
          if (found->size() < limit && IsAmong(targets, value)) {
            found->emplace_back(value, entry.r_offset);
          }
        } else if (type == R_X86_64_64 || type == R_X86_64_COPY) {
          if (by_symbol_.size() == kMaxBySymbol) continue;
          // A copy is told apart by its addend, which is 0.
          by_symbol_.push_back({.place = entry.r_offset,
                                .symbol = ELF64_R_SYM(entry.r_info),
                                .addend = type == R_X86_64_COPY ? INT64_MIN : entry.r_addend});
        }
      }
      offset += size * sizeof(Elf64_Rela);
      count -= size;
    }
  }
}

void PointerTable::ScanData(std::span<const uint64_t> targets, size_t limit,
                            std::vector<std::pair<uint64_t, uint64_t>>* found) {
  uint64_t left = kMaxDataBytes;
  for (const DataRange& range : data_.ranges()) {
    // What the loader does not relocate is no pointer, but where the program has a fixed address.
    if (!range.writable && position_independent_) continue;
    const uint64_t lead = -range.address % sizeof(uint64_t);
    if (lead >= range.size) continue;
    const uint64_t size = std::min(range.size - lead, left);
    left -= size;
    const uint64_t base = range.offset + lead;
    (void)elf_->ReadPieces({.offset = base, .size = size}, 0, [&](uint64_t at, std::string_view b) {
      for (size_t i = 0; i + sizeof(uint64_t) <= b.size(); i += sizeof(uint64_t)) {
        uint64_t value;
        std::memcpy(&value, b.data() + i, sizeof(value));
        if (!IsAmong(targets, value)) continue;
        if (found->size() == limit) return false;
        found->emplace_back(value, range.address + lead + (at - base) + i);
      }
      return true;
    });
  }
}

// Most symbols are looked at once, and few of their names are kept.
void PointerTable::ResolveSymbols() {
  const Section* strings = symbols_ != nullptr ? elf_->FindSection(symbols_->link) : nullptr;
  if (strings == nullptr || strings->type != SHT_STRTAB ||
      strings->size > UINT64_MAX - strings->offset) {
    return;
  }
  const auto runtime_name = [&](const Elf64_Sym& symbol) {
    std::string name = elf_->ReadString(strings->offset + symbol.st_name,
                                        strings->offset + strings->size, kMaxSymbolName);
    return name.starts_with(kRuntimeTables) ? name : std::string();
  };
  std::vector<std::pair<uint64_t, size_t>> named;  // symbol, index in names_
  for (const BySymbol& entry : by_symbol_) {
    const auto [it, fresh] = symbol_values_.try_emplace(entry.symbol);
    if (!fresh || entry.symbol >= symbols_->size / sizeof(Elf64_Sym)) continue;
    Elf64_Sym symbol;
    if (!elf_->Read(symbols_->offset + entry.symbol * sizeof(symbol), &symbol, sizeof(symbol))
             .ok()) {
      continue;
    }
    if (symbol.st_shndx != SHN_UNDEF && entry.addend != INT64_MIN) {
      it->second.address = symbol.st_value;
    }
    if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT && symbol.st_shndx != SHN_UNDEF) continue;
    if (std::string name = runtime_name(symbol); !name.empty()) {
      named.emplace_back(entry.symbol, names_.size());
      if (entry.addend == INT64_MIN) copied_.try_emplace(entry.place, names_.size());
      names_.push_back(std::move(name));
    }
  }
  // The strings have their places by now.
  for (const auto& [symbol, name] : named) symbol_values_[symbol].symbol = names_[name];
  std::erase_if(by_symbol_, [](const BySymbol& entry) { return entry.addend == INT64_MIN; });
}

std::optional<Pointer> PointerTable::At(uint64_t place) {
  if (!Charge(1 + pieces_.size() / 16)) return std::nullopt;
  const auto entry =
      std::lower_bound(by_symbol_.begin(), by_symbol_.end(), place,
                       [](const BySymbol& a, uint64_t value) { return a.place < value; });
  if (entry != by_symbol_.end() && entry->place == place) {
    const auto value = symbol_values_.find(entry->symbol);
    Pointer pointer = value != symbol_values_.end() ? value->second : Pointer();
    pointer.imported = pointer.address == 0;
    if (!pointer.imported) pointer.address += static_cast<uint64_t>(entry->addend);
    return pointer;
  }
  std::optional<uint64_t> value = Relocated(place);
  if (!value) {
    uint64_t word = 0;
    if (!data_.Read(place, &word, sizeof(word))) return std::nullopt;
    value = word;
  }
  Pointer pointer{.address = *value};
  // A pointer to a table begins behind two words: see class_tables.h.
  if (const auto copy = copied_.find(*value - 2 * sizeof(uint64_t)); copy != copied_.end()) {
    pointer.symbol = names_[copy->second];
  }
  return pointer;
}

std::optional<uint64_t> PointerTable::Relocated(uint64_t place) {
  for (size_t i = 0; i < pieces_.size(); ++i) {
    if (place < pieces_[i].least || place > pieces_[i].most) continue;
    const std::vector<Elf64_Rela>* entries = Load(i);
    if (entries == nullptr) return std::nullopt;
    // Linkers sort them, so that this nearly always finds it.
    const auto at = std::lower_bound(
        entries->begin(), entries->end(), place,
        [](const Elf64_Rela& entry, uint64_t value) { return entry.r_offset < value; });
    if (at != entries->end() && at->r_offset == place) return static_cast<uint64_t>(at->r_addend);
  }
  return std::nullopt;
}

const std::vector<Elf64_Rela>* PointerTable::Load(size_t piece) {
  auto& [number, entries] = loaded_[piece % kLoadedPieces];
  if (number == piece) return &entries;
  if (!Charge(pieces_[piece].count)) return nullptr;
  entries.resize(pieces_[piece].count);
  number = SIZE_MAX;
  if (!elf_->Read(pieces_[piece].offset, entries.data(), entries.size() * sizeof(Elf64_Rela))
           .ok()) {
    return nullptr;
  }
  std::erase_if(entries, [](const Elf64_Rela& entry) {
    return ELF64_R_TYPE(entry.r_info) != R_X86_64_RELATIVE;
  });
  std::sort(entries.begin(), entries.end(),
            [](const Elf64_Rela& a, const Elf64_Rela& b) { return a.r_offset < b.r_offset; });
  number = piece;
  return &entries;
}

std::string PointerTable::StringAt(uint64_t address, size_t limit) {
  std::string text;
  for (char c = 0; text.size() < limit && Charge(1) && data_.Read(address + text.size(), &c, 1);) {
    if (c == '\0') return text;
    text.push_back(c);
  }
  return "";
}

bool PointerTable::Charge(uint64_t work) {
  if (work > work_left_) {
    work_left_ = 0;
    return false;
  }
  work_left_ -= work;
  return true;
}

}  // namespace profd::symbolize
