#include "daemon/symbolize/infer/channel_sides.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>

namespace profd::symbolize {
namespace {

constexpr std::string_view kModules[] = {"crossbeam_channel::flavors::array",
                                         "std::sync::mpmc::array"};
// Between the two locations behind a wait.
constexpr uint32_t kApart = 2;

// The first lines of all pairs. A line that is in two of them makes the file one of another kind.
std::vector<uint32_t> PairsIn(std::span<const uint32_t> lines) {
  std::vector<uint32_t> pairs;
  for (const uint32_t line : lines) {
    if (std::binary_search(lines.begin(), lines.end(), line + kApart)) pairs.push_back(line);
  }
  return pairs;
}

}  // namespace

ChannelSides::ChannelSides(const LocationTable* locations) : locations_(locations) {
  for (uint32_t file = 0; file < locations->files().size(); ++file) {
    if (!IsChannel(locations->files()[file].module)) continue;
    const std::vector<uint32_t> pairs = PairsIn(locations->LinesOf(file));
    if (pairs.size() == 2 && pairs[1] > pairs[0] + kApart)
      pairs_.push_back({file, pairs[0], pairs[1]});
  }
}

bool ChannelSides::IsChannel(std::string_view module) {
  return std::find(std::begin(kModules), std::end(kModules), module) != std::end(kModules);
}

ChannelSide ChannelSides::Of(std::span<const uint64_t> loads) const {
  ChannelSide side = ChannelSide::kUnknown;
  for (const uint64_t load : loads) {
    const std::optional<LocatedLine> line = locations_->LineAt(load);
    if (!line) continue;
    for (const Pairs& pairs : pairs_) {
      if (pairs.file != line->file) continue;
      const auto in = [&](uint32_t first) {
        return line->line == first || line->line == first + kApart;
      };
      const ChannelSide own = in(pairs.sends)      ? ChannelSide::kSends
                              : in(pairs.receives) ? ChannelSide::kReceives
                                                   : ChannelSide::kUnknown;
      if (own == ChannelSide::kUnknown) continue;
      if (side != ChannelSide::kUnknown && side != own) return ChannelSide::kUnknown;
      side = own;
    }
  }
  return side;
}

}  // namespace profd::symbolize
