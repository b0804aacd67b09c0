#include "daemon/lines/dwarf_lines.h"

#include <dwarf.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/symbolize/symbol_name.h"
#include "daemon/symbolize/symbolizer.h"

namespace profd {
namespace {

// Bounds of indexes; what is beyond has no lines.
constexpr size_t kMostRanges = 4'000'000;
constexpr size_t kMostNames = 64 << 10;
constexpr int kDeepest = 128;
// A range is found among so many that begin before the address: in honest files units and functions
// do not overlap, but for what a linker left at address 0.
constexpr int kMostTries = 64;
// Rust has functions in its types; elsewhere types hold declarations only. Not in older dwarf.h.
constexpr int kLangRust = 0x1c;

std::string Text(const char* bytes, size_t limit) {
  std::string text = symbolize::Printable(bytes == nullptr ? "" : bytes);
  if (text.size() > limit) text.resize(limit);
  return text;
}

// "outer::inner::" of a declaration.
std::string ScopeOf(Dwarf_Die* declaration) {
  Dwarf_Die* scopes = nullptr;
  const int count = dwarf_getscopes_die(declaration, &scopes);
  std::string path;
  for (int i = 1; i < count; ++i) {
    switch (dwarf_tag(&scopes[i])) {
      case DW_TAG_namespace:
      case DW_TAG_structure_type:
      case DW_TAG_class_type:
      case DW_TAG_union_type:
      case DW_TAG_enumeration_type:
      case DW_TAG_module: {
        const char* name = dwarf_diename(&scopes[i]);
        const bool space = dwarf_tag(&scopes[i]) == DW_TAG_namespace;
        const char* none = space ? "(anonymous namespace)" : "(anonymous class)";
        path.insert(0, absl::StrCat(name == nullptr ? none : name, "::"));
        break;
      }
      default:
        break;
    }
  }
  if (count > 0) std::free(scopes);
  return path;
}

// What an instance of a function is of, and what a definition declares.
Dwarf_Die Declaration(Dwarf_Die die) {
  for (const unsigned attribute : {DW_AT_abstract_origin, DW_AT_specification}) {
    Dwarf_Attribute link;
    Dwarf_Die target;
    if (dwarf_attr(&die, attribute, &link) != nullptr &&
        dwarf_formref_die(&link, &target) != nullptr) {
      die = target;
    }
  }
  return die;
}

bool HasScopes(Dwarf_Die* die) {
  Dwarf_Die unit;
  if (dwarf_diecu(die, &unit, nullptr, nullptr) == nullptr) return false;
  switch (dwarf_srclang(&unit)) {
    case DW_LANG_C89:
    case DW_LANG_C:
    case DW_LANG_C99:
    case DW_LANG_C11:
    case DW_LANG_Mips_Assembler:
      return false;
    default:
      return true;
  }
}

std::string ReadName(Dwarf_Die* function) {
  Dwarf_Attribute attribute;
  for (const unsigned mangled : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name}) {
    if (dwarf_attr_integrate(function, mangled, &attribute) == nullptr) continue;
    const char* name = dwarf_formstring(&attribute);
    if (name != nullptr && *name != '\0') return Demangle(name);
  }
  const char* name = dwarf_diename(function);
  if (name == nullptr || *name == '\0') return "";
  if (!HasScopes(function)) return name;
  Dwarf_Die declaration = Declaration(*function);
  return ScopeOf(&declaration) + name;
}

uint32_t Number(Dwarf_Die* die, unsigned attribute) {
  Dwarf_Attribute found;
  Dwarf_Word value = 0;
  if (dwarf_attr(die, attribute, &found) == nullptr || dwarf_formudata(&found, &value) != 0) {
    return 0;
  }
  return value <= INT32_MAX ? static_cast<uint32_t>(value) : 0;
}

// Where `address` is, by the line table.
void SetPosition(Dwarf_Die* unit, uint64_t address, SourceLine* out) {
  Dwarf_Line* line = dwarf_getsrc_die(unit, address);
  if (line == nullptr) return;
  int number = 0;
  if (dwarf_lineno(line, &number) == 0 && number > 0) out->line = static_cast<uint32_t>(number);
  out->file = Text(dwarf_linesrc(line, nullptr, nullptr), kMaxFileText);
}

// Where an inlined function was called.
void SetCallSite(Dwarf_Die* unit, Dwarf_Die* inlined, SourceLine* out) {
  out->line = Number(inlined, DW_AT_call_line);
  Dwarf_Files* files = nullptr;
  size_t count = 0;
  const uint32_t file = Number(inlined, DW_AT_call_file);
  if (dwarf_getsrcfiles(unit, &files, &count) != 0 || file >= count) return;
  out->file = Text(dwarf_filesrc(files, file, nullptr, nullptr), kMaxFileText);
}

}  // namespace

absl::StatusOr<std::unique_ptr<DwarfLines>> DwarfLines::Open(
    int fd, DwarfImage::OpenSupplementary open_supplementary) {
  ASSIGN_OR_RETURN(DwarfImage image, DwarfImage::Open(fd, open_supplementary));
  std::unique_ptr<DwarfLines> lines(new DwarfLines(std::move(image)));
  lines->ReadUnits();
  return lines;
}

void DwarfLines::AddRanges(Dwarf_Die* die, Ranges* out) {
  const Dwarf_Off offset = dwarf_dieoffset(die);
  Dwarf_Addr base = 0;
  Dwarf_Addr begin = 0;
  Dwarf_Addr end = 0;
  for (ptrdiff_t at = 0; out->size() < kMostRanges;) {
    at = dwarf_ranges(die, at, &base, &begin, &end);
    if (at <= 0) return;
    // Code that the linker dropped is at 0, or at the end of memory.
    if (begin == 0 || end <= begin) continue;
    if (!out->empty() && out->back().die == offset && out->back().end == begin) {
      out->back().end = end;
    } else {
      out->push_back({.begin = begin, .end = end, .die = offset});
    }
  }
}

void DwarfLines::ReadUnits() {
  Dwarf_CU* unit = nullptr;
  Dwarf_Die die;
  uint8_t type = 0;
  // .debug_aranges would be shorter, but not every compiler writes it.
  while (units_.size() < kMostRanges &&
         dwarf_get_units(image_.dwarf(), unit, &unit, nullptr, &type, &die, nullptr) == 0) {
    if (type == DW_UT_compile || type == DW_UT_partial || type == DW_UT_skeleton) {
      AddRanges(&die, &units_);
    }
  }
  std::sort(units_.begin(), units_.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
}

const DwarfLines::Range* DwarfLines::FindRange(const Ranges& ranges, uint64_t address) {
  auto at = std::upper_bound(ranges.begin(), ranges.end(), address,
                             [](uint64_t a, const Range& range) { return a < range.begin; });
  for (int tries = 0; at != ranges.begin() && tries < kMostTries; ++tries) {
    --at;
    if (at->Contains(address)) return &*at;
  }
  return nullptr;
}

void DwarfLines::AddFunctions(Dwarf_Die* parent, bool in_types, int depth, Ranges* out) {
  Dwarf_Die die;
  if (depth > kDeepest || dwarf_child(parent, &die) != 0) return;
  do {
    switch (dwarf_tag(&die)) {
      case DW_TAG_subprogram:
        AddRanges(&die, out);
        break;
      case DW_TAG_structure_type:
      case DW_TAG_class_type:
      case DW_TAG_union_type:
      case DW_TAG_enumeration_type:
        if (in_types) AddFunctions(&die, in_types, depth + 1, out);
        break;
      case DW_TAG_namespace:
      case DW_TAG_module:
        AddFunctions(&die, in_types, depth + 1, out);
        break;
      default:
        break;
    }
  } while (out->size() < kMostRanges && dwarf_siblingof(&die, &die) == 0);
}

DwarfLines::Unit* DwarfLines::FindUnit(Dwarf_Off offset) {
  const auto [it, fresh] = read_units_.try_emplace(offset);
  Unit& unit = it->second;
  if (!fresh) return unit.die.addr == nullptr ? nullptr : &unit;
  Dwarf_Die die;
  if (dwarf_offdie(image_.dwarf(), offset, &die) == nullptr) return nullptr;
  unit.die = die;
  Dwarf_Die split{};
  uint8_t type = 0;
  if (dwarf_cu_info(die.cu, nullptr, &type, nullptr, &split, nullptr, nullptr, nullptr) == 0 &&
      type == DW_UT_skeleton && split.addr != nullptr) {
    unit.die = split;
  }
  AddFunctions(&unit.die, dwarf_srclang(&unit.die) == kLangRust, 0, &unit.functions);
  std::sort(unit.functions.begin(), unit.functions.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  return &unit;
}

void DwarfLines::AddInlined(Dwarf_Die function, uint64_t address, std::vector<Dwarf_Die>* out) {
  Dwarf_Die die;
  if (dwarf_child(&function, &die) != 0) return;
  for (int depth = 0; depth < kDeepest; ++depth) {
    for (;;) {
      const int tag = dwarf_tag(&die);
      if ((tag == DW_TAG_inlined_subroutine || tag == DW_TAG_lexical_block) &&
          dwarf_haspc(&die, address) == 1) {
        if (tag == DW_TAG_inlined_subroutine) out->push_back(die);
        break;
      }
      if (dwarf_siblingof(&die, &die) != 0) return;
    }
    Dwarf_Die child;
    if (dwarf_child(&die, &child) != 0) return;
    die = child;
  }
}

const std::string& DwarfLines::NameOf(Dwarf_Die* function) {
  if (names_.size() >= kMostNames) names_.clear();
  Dwarf_Die declaration = Declaration(*function);
  const auto [it, fresh] = names_.try_emplace(declaration.addr);
  if (fresh) it->second = Text(ReadName(function).c_str(), kMaxFunctionText);
  return it->second;
}

LineChain DwarfLines::Find(uint64_t address) {
  LineChain chain;
  const Range* found = FindRange(units_, address);
  Dwarf_Die own;
  if (found == nullptr || dwarf_offdie(image_.dwarf(), found->die, &own) == nullptr) return chain;
  Unit* const unit = FindUnit(found->die);
  std::vector<Dwarf_Die> functions;  // outermost first
  if (const Range* range = unit == nullptr ? nullptr : FindRange(unit->functions, address)) {
    Dwarf_Die function;
    if (dwarf_offdie(dwarf_cu_getdwarf(unit->die.cu), range->die, &function) != nullptr) {
      functions.push_back(function);
      AddInlined(function, address, &functions);
    }
  }
  chain.resize(std::max<size_t>(functions.size(), 1));
  // The line table is in the file itself, also of split DWARF.
  SetPosition(&own, address, &chain.front());
  for (size_t i = 0; i < functions.size(); ++i) {
    const size_t place = functions.size() - 1 - i;
    chain[place].function = NameOf(&functions[i]);
    if (i > 0) SetCallSite(&unit->die, &functions[i], &chain[place + 1]);
  }
  if (chain.size() > kMaxChain) {
    chain.erase(chain.begin(), chain.end() - static_cast<std::ptrdiff_t>(kMaxChain));
  }
  if (functions.empty() && chain.front().file.empty()) chain.clear();
  return chain;
}

}  // namespace profd
