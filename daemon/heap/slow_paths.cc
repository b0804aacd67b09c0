#include "daemon/heap/slow_paths.h"

#include <algorithm>
#include <array>
#include <optional>

#include "daemon/heap/named_symbols.h"
#include "daemon/symbolize/debug_file.h"
#include "daemon/symbolize/elf_symbols.h"

namespace profd {
namespace {

using symbolize::ElfFile;
using symbolize::FileRange;

struct Named {
  const char* name;
  bool frees;
};
// Large sizes take it at each call, small ones if the cache of the thread is empty or full.
constexpr std::array<Named, 5> kSlowPaths = {{{"large_malloc", false},
                                              {"tcache_alloc_small_hard", false},
                                              {"large_dalloc", true},
                                              {"tcache_bin_flush_small", true},
                                              {"tcache_bin_flush_large", true}}};

std::vector<SlowPath> FindByName(const ElfFile& symbols, const ElfFile& module) {
  std::vector<SlowPath> found;
  for (const Named& named : kSlowPaths) {
    const std::vector<uint64_t> addresses =
        AddressesOf(symbolize::FindFunctions(symbols, named.name, kMaxNamed), named.name, 0);
    // If there are several, it is unclear which one is called.
    if (addresses.size() != 1) continue;
    const std::optional<FileRange> code = module.CodeAt(addresses.front());
    if (!code) continue;
    const absl::StatusOr<ProbePoint> point = FindProbePoint(module, *code);
    if (!point.ok()) continue;
    found.push_back({.offset = code->offset, .point = *point, .frees = named.frees});
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
