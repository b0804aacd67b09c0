#include "daemon/symbolize/symbolizer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "daemon/elf/elf_file.h"
#include "daemon/symbolize/debug_file.h"
#include "daemon/symbolize/inferred_names.h"
#include "daemon/symbolize/mini_debug.h"
#include "daemon/symbolize/module_names.h"
#include "daemon/symbolize/module_symbols.h"
#include "daemon/symbolize/rtti_names.h"
#include "daemon/symbolize/symbol_name.h"
#include "daemon/symbolize/vdso.h"

namespace profd {
namespace {

using symbolize::ElfFile;

// One for each offset.
std::vector<symbolize::FoundName> FindNames(const ElfFile& elf, const ModuleIdentity& identity,
                                            const std::vector<uint64_t>& offsets,
                                            const symbolize::DebugFile* debug) {
  std::vector<symbolize::FoundName> names(offsets.size());
  // The file was replaced, so its symbols could be wrong for the old code.
  if (!identity.build_id.empty() && elf.BuildId() != identity.build_id) return names;

  std::vector<std::pair<uint64_t, size_t>> wanted;  // address, index of its offset
  for (size_t i = 0; i < offsets.size(); ++i) {
    const std::optional<uint64_t> vaddr = elf.VaddrOfOffset(offsets[i]);
    if (vaddr) wanted.emplace_back(*vaddr, i);
  }
  std::sort(wanted.begin(), wanted.end());
  std::vector<uint64_t> addresses;
  for (const auto& [address, index] : wanted) {
    if (addresses.empty() || addresses.back() != address) addresses.push_back(address);
  }
  if (addresses.empty()) return names;

  std::optional<symbolize::DebugFile> mini;
  if (debug == nullptr && !elf.HasSection(SHT_SYMTAB)) mini = symbolize::OpenMiniDebug(elf);
  if (mini) debug = &*mini;
  const std::vector<symbolize::FoundName> found =
      symbolize::FindNames(elf, debug != nullptr ? &debug->elf : nullptr, addresses);
  for (const auto& [address, index] : wanted) {
    const auto at = std::lower_bound(addresses.begin(), addresses.end(), address);
    names[index] = found[static_cast<size_t>(at - addresses.begin())];
  }
  return names;
}

// As users see it.
std::string Text(const symbolize::FoundName& name, const std::string& module, uint64_t offset) {
  switch (name.source) {
    case NameSource::kNone:
      return symbolize::ModuleOffset(module, offset);
    case NameSource::kBounds:
      return symbolize::FunctionAt(module, name.begin);
    case NameSource::kInferred:
      return symbolize::InferredFunction(name.symbol, name.begin);
    case NameSource::kRtti:
      return symbolize::VirtualFunctionText(name.symbol);
    case NameSource::kPlt:
      return symbolize::Printable(Demangle(name.symbol)) + "@plt";
    case NameSource::kSymbols:
    case NameSource::kDynamicSymbols:
    case NameSource::kDebugFile:
    case NameSource::kPerfMap:
    case NameSource::kDebugInfo:
    case NameSource::kKallsyms:
    case NameSource::kProfd:
      break;
  }
  return symbolize::Printable(Demangle(name.symbol));
}

// What tells whether a function belongs to the application.
std::string TextToClassify(const symbolize::FoundName& name, const std::string& function) {
  // An inferred name ends with the module: the function in it is unknown.
  if (name.source == NameSource::kInferred) return name.symbol + "::";
  return name.source == NameSource::kRtti ? name.symbol : function;
}

// Null if there is nothing to say.
std::shared_ptr<const NameDetails> DetailsOf(const symbolize::FoundName& name) {
  if (name.symbol.empty() || name.source == NameSource::kInferred ||
      name.source == NameSource::kRtti) {
    return nullptr;
  }
  NameDetails details{.other_names = {},
                      .more_names = name.more_names,
                      .suffix = symbolize::Printable(DemangleParts(name.symbol).suffix)};
  for (const std::string& other : name.other_names) {
    details.other_names.push_back(symbolize::Printable(Demangle(other)));
  }
  const bool empty =
      details.other_names.empty() && details.more_names == 0 && details.suffix.empty();
  return empty ? nullptr : std::make_shared<const NameDetails>(std::move(details));
}

}  // namespace

absl::StatusOr<ModuleIdentity> ReadIdentity(int fd, std::string path) {
  ASSIGN_OR_RETURN(const ElfFile elf, ElfFile::Open(fd));
  ModuleIdentity identity = {.path = std::move(path), .build_id = elf.BuildId()};
  if (identity.build_id.empty()) identity.headers_id = elf.HeadersId();
  return identity;
}

std::vector<Symbol> SymbolizeModule(int fd, const ModuleIdentity& identity,
                                    std::span<const uint64_t> offsets,
                                    const symbolize::DebugFile* debug) {
  symbolize::CrateMaps maps;
  return SymbolizeModule(fd, identity, offsets, debug, &maps);
}

std::vector<Symbol> SymbolizeModule(int fd, const ModuleIdentity& identity,
                                    std::span<const uint64_t> offsets,
                                    const symbolize::DebugFile* debug, symbolize::CrateMaps* maps) {
  std::vector<uint64_t> unique(offsets.begin(), offsets.end());
  std::sort(unique.begin(), unique.end());
  unique.erase(std::unique(unique.begin(), unique.end()), unique.end());

  const absl::StatusOr<ElfFile> elf = ElfFile::Open(fd);
  std::vector<symbolize::FoundName> names(unique.size());
  const std::string module = symbolize::ModuleName(identity.path);
  if (elf.ok()) {
    names = FindNames(*elf, identity, unique, debug);
    symbolize::NameVirtualFunctions(*elf, names);
    symbolize::InferNames(*elf, module, names, maps);
  }

  std::vector<Symbol> known;
  known.reserve(unique.size());
  for (size_t i = 0; i < unique.size(); ++i) {
    Symbol& symbol = known.emplace_back();
    symbol.function = Text(names[i], module, unique[i]);
    if (identity.path == kVdsoPath && names[i].source == NameSource::kDynamicSymbols) {
      symbol.function = VdsoFunction(symbol.function);
    }
    symbol.kind = ClassifyFrame(identity.path, TextToClassify(names[i], symbol.function));
    symbol.source = names[i].source;
    symbol.details = DetailsOf(names[i]);
  }
  std::vector<Symbol> symbols;
  symbols.reserve(offsets.size());
  for (const uint64_t offset : offsets) {
    const auto at = std::lower_bound(unique.begin(), unique.end(), offset);
    symbols.push_back(known[static_cast<size_t>(at - unique.begin())]);
  }
  return symbols;
}

}  // namespace profd
