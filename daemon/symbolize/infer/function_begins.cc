#include "daemon/symbolize/infer/function_begins.h"

#include <algorithm>
#include <optional>

#include "daemon/elf/frame_table.h"

namespace profd::symbolize {
namespace {

constexpr size_t kMaxFunctions = 2'000'000;

}  // namespace

std::vector<uint64_t> ReadFunctionBegins(const ElfFile& elf) {
  std::vector<uint64_t> begins;
  const std::optional<FrameTable> table = FindFrameTable(elf);
  if (!table) return begins;
  ForEachEntry(elf, *table, [&](const FrameTableEntry& entry) {
    begins.push_back(entry.begin);
    return begins.size() < kMaxFunctions;
  });
  std::sort(begins.begin(), begins.end());
  begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
  return begins;
}

}  // namespace profd::symbolize
