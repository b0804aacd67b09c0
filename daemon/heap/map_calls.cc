#include "daemon/heap/map_calls.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "daemon/elf/elf_file.h"
#include "daemon/heap/probe_point.h"
#include "daemon/symbolize/elf_symbols.h"

namespace profd {
namespace {

using symbolize::CalledFunctions;
using symbolize::ElfFile;
using symbolize::FileRange;
using symbolize::NamedSymbol;

// In the order of enum profd_map_call, which begins at 1.
constexpr std::array<std::string_view, 5> kNames = {"mmap", "munmap", "mremap", "brk", "madvise"};
static_assert(PROFD_MAP_MMAP == 1 && PROFD_MAP_MADVISE == kNames.size());
// A libc defines each name once or, with symbol versions, twice.
constexpr size_t kMaxDefined = 32;

absl::StatusOr<std::vector<MapCall>> PlacesIn(const ElfFile& elf,
                                              const std::vector<NamedSymbol>& defined) {
  std::vector<MapCall> calls;
  for (const NamedSymbol& function : defined) {
    const auto name = std::find(kNames.begin(), kNames.end(), function.name);
    const std::optional<FileRange> code = elf.CodeAt(function.address);
    if (name == kNames.end() || !code) continue;
    const auto call = static_cast<profd_map_call>(name - kNames.begin() + 1);
    // Memory returned with madvise stays mapped, so it can be examined after the call.
    const Reach reach = call == PROFD_MAP_MADVISE ? Reach::kAfterSystemCall : Reach::kUnchanged;
    ASSIGN_OR_RETURN(const ProbePoint point, FindProbePoint(elf, *code, reach));
    calls.push_back({.call = call, .offset = code->offset + point.skip, .stepped = point.stepped});
  }
  std::sort(calls.begin(), calls.end(), [](const MapCall& a, const MapCall& b) {
    return a.offset != b.offset ? a.offset < b.offset : a.call < b.call;
  });
  const auto same = [](const MapCall& a, const MapCall& b) { return a.offset == b.offset; };
  calls.erase(std::unique(calls.begin(), calls.end(), same), calls.end());
  return calls;
}

bool IsLibc(const std::vector<MapCall>& calls) {
  const auto has = [&](profd_map_call wanted) {
    return std::any_of(calls.begin(), calls.end(),
                       [wanted](const MapCall& call) { return call.call == wanted; });
  };
  return has(PROFD_MAP_MMAP) && has(PROFD_MAP_MUNMAP) &&
         (has(PROFD_MAP_BRK) || has(PROFD_MAP_MADVISE));
}

}  // namespace

absl::StatusOr<std::vector<MapCall>> FindMapCalls(int fd) {
  ASSIGN_OR_RETURN(const ElfFile elf, ElfFile::Open(fd));
  if (elf.machine() != EM_X86_64) return absl::InvalidArgumentError("not an x86-64 ELF file");
  const CalledFunctions dynamic = symbolize::FindCalled(elf, SHT_DYNSYM, kNames, kMaxDefined);
  ASSIGN_OR_RETURN(std::vector<MapCall> calls, PlacesIn(elf, dynamic.defined));
  // A file that imports functions uses those of another file.
  if (!IsLibc(calls) && !dynamic.imports) {
    ASSIGN_OR_RETURN(
        calls, PlacesIn(elf, symbolize::FindCalled(elf, SHT_SYMTAB, kNames, kMaxDefined).defined));
  }
  if (!IsLibc(calls)) calls.clear();
  return calls;
}

}  // namespace profd
