#include "daemon/symbolize/module_names.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>

#include "daemon/symbolize/elf_symbols.h"
#include "daemon/symbolize/function_bounds.h"
#include "daemon/symbolize/go_names.h"
#include "daemon/symbolize/plt.h"

namespace profd::symbolize {
namespace {

// The bounds of functions around addresses that have no symbol with a size.
class Bounds {
 public:
  Bounds(const ElfFile& elf, const std::vector<uint64_t>& addresses,
         const std::vector<CoveringSymbol>& symbols) {
    for (size_t i = 0; i < addresses.size(); ++i) {
      if (symbols[i].sized && !symbols[i].name.empty()) continue;
      addresses_.push_back(addresses[i]);
      if (!symbols[i].name.empty()) addresses_.push_back(symbols[i].begin);
    }
    std::sort(addresses_.begin(), addresses_.end());
    addresses_.erase(std::unique(addresses_.begin(), addresses_.end()), addresses_.end());
    found_ = FindBounds(elf, addresses_);
  }

  const std::optional<FunctionBounds>& Of(uint64_t address) const {
    const auto at = std::lower_bound(addresses_.begin(), addresses_.end(), address);
    return found_[static_cast<size_t>(at - addresses_.begin())];
  }

 private:
  std::vector<uint64_t> addresses_;
  std::vector<std::optional<FunctionBounds>> found_;
};

// A label has no size. It names an address of the function that it begins or lies in, and code
// that no function describes.
bool LabelReaches(const CoveringSymbol& label, uint64_t address, const Bounds& bounds) {
  if (const auto& around = bounds.Of(address)) return around->begin <= label.begin;
  return !bounds.Of(label.begin);
}

}  // namespace

std::vector<FoundName> FindNames(const ElfFile& elf, const ElfFile* debug,
                                 const std::vector<uint64_t>& addresses) {
  SymbolLookup lookup(addresses);
  if (!lookup.AddTables(elf) && debug != nullptr) lookup.AddTables(*debug, NameSource::kDebugFile);
  std::vector<CoveringSymbol> symbols = lookup.Find();
  const Bounds bounds(elf, addresses, symbols);

  std::vector<FoundName> found(addresses.size());
  std::vector<uint64_t> unnamed;
  for (size_t i = 0; i < addresses.size(); ++i) {
    CoveringSymbol& symbol = symbols[i];
    if (symbol.name.empty() || (!symbol.sized && !LabelReaches(symbol, addresses[i], bounds))) {
      unnamed.push_back(addresses[i]);
      continue;
    }
    found[i] = {.symbol = std::move(symbol.name),
                .begin = symbol.begin,
                .source = symbol.source,
                .other_names = std::move(symbol.other_names),
                .more_names = symbol.more_names};
  }

  const std::vector<PltEntry> entries = FindPltEntries(elf, unnamed);
  const std::optional<GoTable> go = unnamed.empty() ? std::nullopt : OpenGoTable(elf);
  for (size_t i = 0, next = 0; next < unnamed.size(); ++i) {
    if (addresses[i] != unnamed[next]) continue;
    const PltEntry& entry = entries[next++];
    // All entries of a PLT share one description in .eh_frame.
    const bool in_plt = entry.bounds.Contains(addresses[i]);
    const auto& around = bounds.Of(addresses[i]);
    const auto function = go ? go->Around(addresses[i]) : std::nullopt;
    if (std::string name = function ? go->Name(*function) : ""; !name.empty()) {
      found[i] = {
          .symbol = std::move(name), .begin = function->begin, .source = NameSource::kSymbols};
    } else if (!entry.name.empty()) {
      found[i] = {.symbol = entry.name, .begin = entry.bounds.begin, .source = NameSource::kPlt};
    } else if (in_plt || around) {
      found[i] = {.symbol = {},
                  .begin = in_plt ? entry.bounds.begin : around->begin,
                  .source = NameSource::kBounds};
    }
  }
  return found;
}

}  // namespace profd::symbolize
