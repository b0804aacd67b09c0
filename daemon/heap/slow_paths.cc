#include "daemon/heap/slow_paths.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "daemon/symbolize/debug_file.h"
#include "daemon/symbolize/elf_symbols.h"

namespace profd {
namespace {

using symbolize::ElfFile;
using symbolize::FileRange;
using symbolize::NamedSymbol;

struct Named {
  std::string_view name;
  bool frees;
};
// Large sizes one by one; small ones when a thread's cache is empty, or full.
constexpr std::array<Named, 5> kSlowPaths = {{{"large_malloc", false},
                                              {"tcache_alloc_small_hard", false},
                                              {"large_dalloc", true},
                                              {"tcache_bin_flush_small", true},
                                              {"tcache_bin_flush_large", true}}};
constexpr size_t kMaxNamed = 64;

// Under its whole name, with any prefix: of a part or a clone the arguments are not known.
bool IsNamed(std::string_view symbol, std::string_view name) {
  if (!symbol.ends_with(name)) return false;
  const size_t prefix = symbol.size() - name.size();
  return prefix == 0 || symbol[prefix - 1] == '_';
}

std::vector<SlowPath> FindByName(const ElfFile& symbols, const ElfFile& module) {
  std::vector<SlowPath> found;
  for (const Named& named : kSlowPaths) {
    std::vector<uint64_t> offsets;
    for (const NamedSymbol& function : symbolize::FindFunctions(symbols, named.name, kMaxNamed)) {
      if (!IsNamed(function.name, named.name)) continue;
      const std::optional<FileRange> code = module.CodeAt(function.address);
      if (code) offsets.push_back(code->offset);
    }
    std::sort(offsets.begin(), offsets.end());
    offsets.erase(std::unique(offsets.begin(), offsets.end()), offsets.end());
    // Of several it is not known which is called.
    if (offsets.size() != 1) continue;
    found.push_back({.offset = offsets.front(), .frees = named.frees});
  }
  std::sort(found.begin(), found.end(),
            [](const SlowPath& a, const SlowPath& b) { return a.offset < b.offset; });
  return found;
}

}  // namespace

std::vector<SlowPath> FindSlowPaths(const ElfFile& module, const std::string& path,
                                    const std::string& debug_root, const std::string& version) {
  if (!version.starts_with("5.3.")) return {};
  std::vector<SlowPath> found = FindByName(module, module);
  if (!found.empty()) return found;
  const auto debug = symbolize::OpenDebugFile(module, module.BuildId(), path, debug_root);
  if (debug) found = FindByName(debug->elf, module);
  return found;
}

}  // namespace profd
