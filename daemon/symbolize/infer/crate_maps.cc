#include "daemon/symbolize/infer/crate_maps.h"

#include <algorithm>
#include <string_view>

#include "absl/hash/hash.h"

namespace profd::symbolize {
namespace {

constexpr size_t kMaxBytes = 4 << 20;
constexpr size_t kMaxMaps = 16;

}  // namespace

std::shared_ptr<const CrateMap> CrateMaps::Of(const ElfFile& elf, const LocationTable& locations,
                                              std::span<const uint64_t> begins) {
  const std::string_view addresses(reinterpret_cast<const char*>(begins.data()),
                                   begins.size_bytes());
  const size_t key = absl::HashOf(addresses, locations.crates(), locations.record_count());
  const auto known = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.key == key; });
  if (known != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, known);
    return known->map;
  }
  const auto map = std::make_shared<const CrateMap>(CrateMap::Build(elf, locations, begins));
  entries_.push_front({.key = key, .map = map});
  size_t bytes = 0;
  size_t kept = 0;
  std::erase_if(entries_, [&](const Entry& entry) {
    bytes += entry.map->MemoryBytes();
    return bytes > kMaxBytes || ++kept > kMaxMaps;
  });
  return map;
}

}  // namespace profd::symbolize
