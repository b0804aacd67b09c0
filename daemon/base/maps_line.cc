#include "daemon/base/maps_line.h"

#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace profd {

std::optional<MapsLine> ParseMapsLine(absl::string_view line) {
  const std::vector<absl::string_view> fields = absl::StrSplit(line, absl::MaxSplits(' ', 5));
  if (fields.size() < 5 || fields[1].size() != 4) return std::nullopt;
  const std::pair<absl::string_view, absl::string_view> range =
      absl::StrSplit(fields[0], absl::MaxSplits('-', 1));
  MapsLine mapping;
  if (!absl::SimpleHexAtoi(range.first, &mapping.begin) ||
      !absl::SimpleHexAtoi(range.second, &mapping.end) ||
      !absl::SimpleHexAtoi(fields[2], &mapping.file_offset) || mapping.begin >= mapping.end) {
    return std::nullopt;
  }
  mapping.access = fields[1];
  if (fields.size() == 6) mapping.path = absl::StripLeadingAsciiWhitespace(fields[5]);
  return mapping;
}

}  // namespace profd
