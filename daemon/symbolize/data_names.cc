#include "daemon/symbolize/data_names.h"

#include <algorithm>
#include <optional>

#include "daemon/elf/elf_file.h"
#include "daemon/symbolize/debug_file.h"
#include "daemon/symbolize/elf_symbols.h"
#include "daemon/symbolize/mini_debug.h"
#include "daemon/symbolize/symbol_name.h"
#include "daemon/symbolize/symbolizer.h"

namespace profd {

std::vector<DataName> NameData(int fd, const std::string& path,
                               std::span<const uint64_t> addresses) {
  std::vector<DataName> names(addresses.size());
  const absl::StatusOr<symbolize::ElfFile> elf = symbolize::ElfFile::Open(fd);
  if (!elf.ok()) return names;
  std::vector<uint64_t> unique(addresses.begin(), addresses.end());
  std::sort(unique.begin(), unique.end());
  unique.erase(std::unique(unique.begin(), unique.end()), unique.end());

  symbolize::SymbolLookup lookup(unique, symbolize::SymbolsOf::kData);
  std::optional<symbolize::DebugFile> debug;  // outlives the lookup's use of it
  if (!lookup.AddTables(*elf)) {
    debug = symbolize::OpenDebugFile(*elf, elf->BuildId(), path);
    if (!debug) debug = symbolize::OpenMiniDebug(*elf);
    if (debug) lookup.AddTables(debug->elf, NameSource::kDebugFile);
  }
  const std::vector<symbolize::CoveringSymbol> found = lookup.Find();
  for (size_t i = 0; i < addresses.size(); ++i) {
    const auto at = std::lower_bound(unique.begin(), unique.end(), addresses[i]);
    const symbolize::CoveringSymbol& symbol = found[static_cast<size_t>(at - unique.begin())];
    if (symbol.name.empty()) continue;
    names[i] = {.variable = symbolize::Printable(Demangle(symbol.name)),
                .offset = addresses[i] - symbol.begin};
  }
  return names;
}

ModuleExtent ExtentOf(int fd) {
  ModuleExtent extent;
  const absl::StatusOr<symbolize::ElfFile> elf = symbolize::ElfFile::Open(fd);
  if (!elf.ok()) return extent;
  bool has_base = false;
  extent.begin = UINT64_MAX;
  for (const symbolize::Segment& segment : elf->segments()) {
    if (segment.type != PT_LOAD) continue;
    if (segment.memory_size > UINT64_MAX - segment.address) continue;
    if (segment.offset == 0 && !has_base) {
      extent.base = segment.address;
      has_base = true;
    }
    extent.begin = std::min(extent.begin, segment.address);
    extent.end = std::max(extent.end, segment.address + segment.memory_size);
  }
  return has_base ? extent : ModuleExtent();
}

}  // namespace profd
