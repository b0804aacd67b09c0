#include "daemon/symbolize/elf_symbols.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "absl/functional/function_ref.h"
#include "daemon/symbolize/folded_names.h"
#include "daemon/symbolize/symbol_name.h"

namespace profd::symbolize {
namespace {

constexpr size_t kChunkSymbols = 8192;
// The largest programs have several million symbols. The limit is for all tables of a lookup
// together.
constexpr uint64_t kMaxSymbols = 16'000'000;
// Overlapping symbols could cost symbols × addresses; real symbols overlap little.
constexpr uint64_t kMaxCoveringUpdates = 50'000'000;
// The assumed extent of a symbol without a size: hand-written assembly is no longer than this.
constexpr uint64_t kMaxUnsizedReach = 64 << 10;
constexpr size_t kMaxNameBytes = 64 << 10;
constexpr size_t kMaxTables = 16;
// Limits of a search by name: matches in one string table, names read in total, bytes per name,
// bytes of string tables.
constexpr size_t kMaxNamePlaces = 4096;
constexpr size_t kMaxNamesRead = 16384;
constexpr size_t kMaxSearchedNameBytes = 255;
constexpr uint64_t kMaxSearchedStrings = uint64_t{1} << 30;

// Better kinds have higher bits: functions beat bare labels, exported symbols beat local ones.
constexpr uint8_t kLabelRank = 1;
constexpr uint8_t kExportedBit = 2;
constexpr uint8_t kFunctionBit = 4;

// The string table of a symbol table; null if it cannot be read.
const Section* StringsOf(const ElfFile& elf, const Section& table) {
  const Section* strings = elf.FindSection(table.link);
  if (strings == nullptr || strings->type != SHT_STRTAB || table.entry_size != sizeof(Elf64_Sym) ||
      (table.flags & SHF_COMPRESSED) != 0 ||
      strings->size > std::numeric_limits<uint64_t>::max() - strings->offset) {
    return nullptr;
  }
  return strings;
}

// Calls `visit` for each symbol, for at most `left` of them, and counts `left` down. A table that
// ends early still yields the symbols up to there.
void ForEachSymbol(const ElfFile& elf, const Section& table, uint64_t& symbols_left,
                   absl::FunctionRef<void(const Elf64_Sym&)> visit) {
  uint64_t left = std::min(table.size / sizeof(Elf64_Sym), symbols_left);
  std::vector<Elf64_Sym> chunk(std::min<uint64_t>(left, kChunkSymbols));
  symbols_left -= left;
  uint64_t offset = table.offset;
  while (left > 0) {
    const auto count = static_cast<size_t>(std::min<uint64_t>(left, kChunkSymbols));
    if (!elf.Read(offset, chunk.data(), count * sizeof(Elf64_Sym)).ok()) return;
    for (size_t i = 0; i < count; ++i) visit(chunk[i]);
    offset += count * sizeof(Elf64_Sym);
    left -= count;
  }
}

// The offsets of `part` in a string table, ascending.
std::vector<uint64_t> PlacesOf(const ElfFile& elf, const Section& strings, std::string_view part,
                               uint64_t& bytes_left) {
  std::vector<uint64_t> places;
  const uint64_t size = std::min(strings.size, bytes_left);
  bytes_left -= size;
  const auto visit = [&](uint64_t at, std::string_view bytes) {
    for (size_t i = bytes.find(part); i != bytes.npos; i = bytes.find(part, i + 1)) {
      if (places.size() == kMaxNamePlaces) return false;
      places.push_back(at + i - strings.offset);
    }
    return true;
  };
  // Everything before an unreadable place has been searched.
  (void)elf.ReadPieces({.offset = strings.offset, .size = size}, part.size() - 1, visit);
  return places;
}

// Symbols of one type (STT_*) whose name contains `part`.
std::vector<NamedSymbol> FindNamed(const ElfFile& elf, unsigned type, std::string_view part,
                                   size_t limit) {
  std::vector<NamedSymbol> found;
  uint64_t symbols_left = kMaxSymbols;
  uint64_t bytes_left = kMaxSearchedStrings;
  size_t names_left = kMaxNamesRead;
  for (const Section& section : elf.sections()) {
    if (section.type != SHT_SYMTAB && section.type != SHT_DYNSYM) continue;
    const Section* strings = StringsOf(elf, section);
    if (strings == nullptr) continue;
    const std::vector<uint64_t> places = PlacesOf(elf, *strings, part, bytes_left);
    if (places.empty()) continue;
    ForEachSymbol(elf, section, symbols_left, [&](const Elf64_Sym& symbol) {
      // The names of most symbols are never read, because no `part` is near their start.
      const auto place = std::lower_bound(places.begin(), places.end(), symbol.st_name);
      if (place == places.end() || *place - symbol.st_name > kMaxSearchedNameBytes - part.size() ||
          ELF64_ST_TYPE(symbol.st_info) != type || symbol.st_shndx == SHN_UNDEF ||
          found.size() == limit || names_left == 0) {
        return;
      }
      --names_left;
      std::string name = elf.ReadString(strings->offset + symbol.st_name,
                                        strings->offset + strings->size, kMaxSearchedNameBytes + 1);
      if (name.size() > kMaxSearchedNameBytes || name.find(part) == name.npos) return;
      found.push_back(
          {.name = std::move(name), .address = symbol.st_value, .size = symbol.st_size});
    });
  }
  return found;
}

}  // namespace

std::vector<NamedSymbol> FindFunctions(const ElfFile& elf, std::string_view part, size_t limit) {
  return FindNamed(elf, STT_FUNC, part, limit);
}

std::vector<NamedSymbol> FindVariables(const ElfFile& elf, std::string_view part, size_t limit) {
  return FindNamed(elf, STT_OBJECT, part, limit);
}

std::vector<ExportedFunction> ExportedFunctions(const ElfFile& elf, uint64_t max_size,
                                                size_t limit) {
  std::vector<ExportedFunction> found;
  uint64_t symbols_left = kMaxSymbols;
  bool too_many = false;
  for (const Section& section : elf.sections()) {
    if (section.type != SHT_DYNSYM) continue;
    const Section* strings = StringsOf(elf, section);
    if (strings == nullptr) continue;
    ForEachSymbol(elf, section, symbols_left, [&](const Elf64_Sym& symbol) {
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF ||
          symbol.st_size == 0 || symbol.st_size > max_size || symbol.st_name >= strings->size) {
        return;
      }
      too_many |= found.size() == limit;
      if (too_many) return;
      found.push_back({.address = symbol.st_value,
                       .size = symbol.st_size,
                       .name = {.offset = strings->offset + symbol.st_name,
                                .size = strings->size - symbol.st_name}});
    });
  }
  if (too_many) return {};
  const auto is_hidden = [&](const ExportedFunction& function) {
    char first = 0;
    return !elf.Read(function.name.offset, &first, sizeof(first)).ok() || first == '_';
  };
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.address < b.address; });
  // Where a place has several names.
  size_t kept = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    if (kept > 0 && found[kept - 1].address == found[i].address) {
      if (is_hidden(found[kept - 1]) && !is_hidden(found[i])) found[kept - 1] = found[i];
    } else {
      found[kept++] = found[i];
    }
  }
  found.resize(kept);
  return found;
}

CalledFunctions FindCalled(const ElfFile& elf, uint32_t table,
                           std::span<const std::string_view> names, size_t limit) {
  CalledFunctions called;
  uint64_t symbols_left = kMaxSymbols;
  for (const Section& section : elf.sections()) {
    if (section.type != table) continue;
    const Section* strings = StringsOf(elf, section);
    if (strings == nullptr) continue;
    // A string table may store a name as the end of a longer one, so a symbol may point into a
    // string.
    std::vector<std::vector<uint64_t>> places;
    for (const std::string_view name : names) {
      uint64_t bytes_left = kMaxSearchedStrings;
      places.push_back(PlacesOf(elf, *strings, std::string(name) + '\0', bytes_left));
    }
    ForEachSymbol(elf, section, symbols_left, [&](const Elf64_Sym& symbol) {
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || ELF64_ST_BIND(symbol.st_info) == STB_LOCAL) {
        return;
      }
      if (symbol.st_shndx == SHN_UNDEF) {
        called.imports = true;
        return;
      }
      for (size_t i = 0; i < names.size() && called.defined.size() < limit; ++i) {
        if (std::binary_search(places[i].begin(), places[i].end(), symbol.st_name)) {
          called.defined.push_back(
              {.name = std::string(names[i]), .address = symbol.st_value, .size = symbol.st_size});
        }
      }
    });
  }
  return called;
}

void SymbolLookup::Candidate::Offer(uint64_t symbol_value, NameRef name) {
  // A function is a better name than a label inside of it, even if the label is nearer.
  const auto key = [](uint64_t v, uint8_t r) { return std::pair(r & kFunctionBit, v); };
  const auto offered_key = key(symbol_value, name.rank);
  const auto held = key(value, rank);
  if (rank == 0 || offered_key > held) {
    value = symbol_value;
    rank = name.rank;
    names[0] = name;
    name_count = 1;
    offered = 1;
    return;
  }
  if (offered_key < held) return;
  rank = std::max(rank, name.rank);
  if (name.table == names[0].table && offered < std::numeric_limits<uint16_t>::max()) ++offered;
  if (name_count < names.size()) {
    names[name_count++] = name;
    return;
  }
  // Exported names are kept before local ones. The first name stays, as it says which table counts.
  const auto worst = std::min_element(names.begin() + 1, names.end(),
                                      [](const auto& a, const auto& b) { return a.rank < b.rank; });
  if (worst->rank < name.rank) *worst = name;
}

SymbolLookup::SymbolLookup(std::vector<uint64_t> addresses, SymbolsOf wanted)
    : wanted_(wanted),
      addresses_(std::move(addresses)),
      slots_(addresses_.size()),
      symbols_left_(kMaxSymbols),
      updates_left_(kMaxCoveringUpdates) {}

bool SymbolLookup::AddTables(const ElfFile& elf, NameSource symbols) {
  bool has_symtab = false;
  // What both tables hold is found in the first one.
  for (const uint32_t type : {SHT_SYMTAB, SHT_DYNSYM}) {
    for (const Section& section : elf.sections()) {
      if (section.type != type) continue;
      if (tables_.size() == kMaxTables) break;
      has_symtab |= type == SHT_SYMTAB;
      AddTable(elf, section, type == SHT_SYMTAB ? symbols : NameSource::kDynamicSymbols);
    }
  }
  return has_symtab;
}

void SymbolLookup::AddTable(const ElfFile& elf, const Section& section, NameSource source) {
  const Section* strings = StringsOf(elf, section);
  if (strings == nullptr) return;
  const auto table = static_cast<uint16_t>(tables_.size());
  tables_.push_back({.elf = &elf,
                     .strings_begin = strings->offset,
                     .strings_end = strings->offset + strings->size,
                     .source = source});
  ForEachSymbol(elf, section, symbols_left_,
                [&](const Elf64_Sym& symbol) { AddSymbol(elf, symbol, table); });
}

void SymbolLookup::AddSymbol(const ElfFile& elf, const Elf64_Sym& symbol, uint16_t table) {
  const unsigned type = ELF64_ST_TYPE(symbol.st_info);
  const bool data = wanted_ == SymbolsOf::kData;
  if (data && (type != STT_OBJECT || symbol.st_size == 0)) return;
  // Of data, what counts as a function here is a variable.
  const bool function = data || type == STT_FUNC || type == STT_GNU_IFUNC;
  if (!function && type != STT_NOTYPE) return;
  if (symbol.st_name == 0 || symbol.st_shndx == SHN_UNDEF || symbol.st_shndx == SHN_ABS ||
      symbol.st_shndx == SHN_COMMON) {
    return;
  }
  const uint64_t value = symbol.st_value;
  const auto first = std::lower_bound(addresses_.begin(), addresses_.end(), value);
  if (first == addresses_.end()) return;
  const Section* section = elf.FindSection(symbol.st_shndx);
  if (!function && (section == nullptr || !section->Executable())) return;

  const unsigned bind = ELF64_ST_BIND(symbol.st_info);
  uint8_t rank = kLabelRank;
  if (bind != STB_LOCAL) rank |= kExportedBit;
  if (function) rank |= kFunctionBit;
  const NameRef name{
      .offset = symbol.st_name, .table = table, .weak = bind == STB_WEAK, .rank = rank};

  auto index = static_cast<size_t>(first - addresses_.begin());
  // Candidates for "at or before" are stored at the first such address; Find() carries them on.
  Slot& slot = slots_[index];
  if (symbol.st_size == 0) {
    if (section == nullptr) return;
    if (slot.preceding.rank == 0 || value >= slot.preceding.value) {
      if (slot.preceding.rank != 0 && value > slot.preceding.value) slot.preceding = Candidate();
      slot.preceding.Offer(value, name);
      slot.section_begin = section->address;
      slot.section_end = section->address + section->size;
    }
    return;
  }
  const uint64_t end =
      value + std::min(symbol.st_size, std::numeric_limits<uint64_t>::max() - value);
  slot.sized_value = std::max(slot.sized_value, value);
  slot.sized_end = std::max(slot.sized_end, end);
  for (; index < addresses_.size() && addresses_[index] < end && updates_left_ > 0; ++index) {
    slots_[index].covering.Offer(value, name);
    --updates_left_;
  }
}

std::vector<CoveringSymbol> SymbolLookup::Find() {
  std::vector<CoveringSymbol> found(addresses_.size());
  for (size_t i = 0; i < addresses_.size(); ++i) {
    Slot& slot = slots_[i];
    if (i > 0) {
      const Slot& before = slots_[i - 1];
      slot.sized_value = std::max(slot.sized_value, before.sized_value);
      slot.sized_end = std::max(slot.sized_end, before.sized_end);
      if (slot.preceding.rank == 0 && before.preceding.rank != 0) {
        slot.preceding = before.preceding;
        slot.section_begin = before.section_begin;
        slot.section_end = before.section_end;
      }
    }
    const uint64_t address = addresses_[i];
    if (slot.covering.rank != 0) {
      found[i] = Describe(slot.covering, true);
      continue;
    }
    // A label extends at most to the next start or end of a symbol with a size.
    const Candidate& label = slot.preceding;
    const bool reaches = label.rank != 0 && slot.sized_value < label.value &&
                         slot.sized_end <= label.value &&
                         address - label.value < kMaxUnsizedReach &&
                         label.value >= slot.section_begin && address < slot.section_end;
    if (reaches) found[i] = Describe(label, false);
  }
  return found;
}

CoveringSymbol SymbolLookup::Describe(const Candidate& candidate, bool sized) const {
  std::vector<PlaceName> names;
  uint32_t read = 0;  // of the first table
  for (size_t i = 0; i < candidate.name_count; ++i) {
    const NameRef& ref = candidate.names[i];
    const Table& table = tables_[ref.table];
    if (ref.table == candidate.names[0].table) ++read;
    const uint64_t at = table.strings_begin + ref.offset;
    if (at < table.strings_begin) continue;
    std::string raw = table.elf->ReadString(at, table.strings_end, kMaxNameBytes);
    std::string name(WithoutVersion(raw));
    if (name.empty()) continue;
    names.push_back({.symbol = std::move(name),
                     .exported = (ref.rank & kExportedBit) != 0,
                     .weak = ref.weak,
                     .source = table.source});
  }
  CoveringSymbol symbol{.name = {}, .begin = candidate.value, .sized = sized};
  if (names.empty()) return symbol;
  OrderNames(&names);
  symbol.name = std::move(names.front().symbol);
  symbol.source = names.front().source;
  for (size_t i = 1; i < names.size(); ++i) {
    symbol.other_names.push_back(std::move(names[i].symbol));
  }
  symbol.more_names = candidate.offered > read ? candidate.offered - read : 0;
  return symbol;
}

}  // namespace profd::symbolize
