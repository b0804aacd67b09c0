#include "daemon/memory/fields.h"

#include <charconv>
#include <cstddef>

namespace profd {
namespace {

constexpr uint64_t kMostNumber = uint64_t{1} << 62;

}  // namespace

std::vector<std::string_view> SplitAt(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  while (true) {
    const size_t end = text.find(separator);
    pieces.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

std::optional<int64_t> ParseNumber(std::string_view text) {
  uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, number);
  if (text.empty() || error != std::errc() || after != end || number > kMostNumber) {
    return std::nullopt;
  }
  return static_cast<int64_t>(number);
}

}  // namespace profd
