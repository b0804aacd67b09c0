#include "daemon/symbolize/perf_map.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "daemon/base/fd.h"

namespace profd::symbolize {
namespace {

constexpr size_t kMapPiece = 256 << 10;
constexpr size_t kMaxKeptName = 4096;
// Two numbers, their spaces and a name.
constexpr size_t kMaxMapLine = kMaxKeptName + 64;
constexpr int kHexadecimal = 16;

bool IsBlank(char c) { return c == ' ' || c == '\t'; }

// The number at the start of `text`, which must be followed by spaces. Removes both.
std::optional<uint64_t> TakeNumber(std::string_view& text) {
  if (text.starts_with("0x")) text.remove_prefix(2);
  uint64_t number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, kHexadecimal);
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  if (error != std::errc() || text.empty() || !IsBlank(text.front())) return std::nullopt;
  while (!text.empty() && IsBlank(text.front())) text.remove_prefix(1);
  return number;
}

struct MapEntry {
  uint64_t begin = 0;
  uint64_t size = 0;
  size_t name_at = 0;  // in the line
};

std::optional<MapEntry> ParseMapEntry(std::string_view line) {
  std::string_view rest = line;
  const std::optional<uint64_t> begin = TakeNumber(rest);
  if (!begin) return std::nullopt;
  const std::optional<uint64_t> size = TakeNumber(rest);
  if (!size || rest.empty()) return std::nullopt;
  return MapEntry{.begin = *begin, .size = *size, .name_at = line.size() - rest.size()};
}

// Finds the last line for each address. Keeps only where in the file its name is: a hostile file
// may name each address millions of times.
class MapScan {
 public:
  MapScan(std::span<const uint64_t> addresses, uint64_t max_matches)
      : addresses_(addresses), matches_left_(max_matches), places_(addresses.size()) {}

  // False when the limit is reached. `at`: of the line, in the file.
  bool OnLine(std::string_view line, uint64_t at) {
    const std::optional<MapEntry> entry = ParseMapEntry(line);
    if (!entry) {
      ++malformed_;
      return true;
    }
    const uint64_t end =
        entry->begin + std::min(entry->size, std::numeric_limits<uint64_t>::max() - entry->begin);
    const auto first = std::lower_bound(addresses_.begin(), addresses_.end(), entry->begin);
    for (auto i = static_cast<size_t>(first - addresses_.begin());
         i < addresses_.size() && addresses_[i] < end; ++i) {
      if (matches_left_ == 0) return false;
      --matches_left_;
      places_[i] = {.at = at + entry->name_at,
                    .size = std::min(line.size() - entry->name_at, kMaxKeptName)};
    }
    return true;
  }

  uint64_t malformed() const { return malformed_; }

  std::vector<std::string> ReadNames(int fd) const {
    std::vector<std::string> names(places_.size());
    for (size_t i = 0; i < places_.size(); ++i) {
      if (places_[i].size == 0) continue;
      names[i].resize(places_[i].size);
      // The file was cut meanwhile.
      if (!ReadFileAt(fd, places_[i].at, names[i].data(), names[i].size()).ok()) names[i].clear();
    }
    return names;
  }

 private:
  struct Place {
    uint64_t at = 0;
    size_t size = 0;
  };

  const std::span<const uint64_t> addresses_;
  uint64_t matches_left_;
  uint64_t malformed_ = 0;
  std::vector<Place> places_;
};

// Hands over the lines of a file from `at` on, each cut after kMaxMapLine, until `visit` returns
// false. Returns the number of bytes that were read.
template <typename Visit>
absl::StatusOr<uint64_t> ForEachLine(int fd, uint64_t at, uint64_t end, bool skip, Visit visit) {
  std::vector<char> buffer(kMaxMapLine + kMapPiece);
  const uint64_t from = at;
  size_t kept = 0;  // bytes of a line whose end was not read yet
  while (at < end) {
    const ssize_t count =
        pread(fd, buffer.data() + kept, std::min(end - at, kMapPiece), static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus("read a perf map", errno);
    if (count == 0) break;
    std::string_view text(buffer.data(), kept + static_cast<size_t>(count));
    uint64_t line_at = at - kept;
    at += static_cast<uint64_t>(count);
    for (size_t length = text.find('\n'); length != text.npos; length = text.find('\n')) {
      const std::string_view line = text.substr(0, std::min(length, kMaxMapLine));
      if (!std::exchange(skip, false) && !visit(line, line_at)) return at - from;
      text.remove_prefix(length + 1);
      line_at += length + 1;
    }
    if (text.size() > kMaxMapLine) {
      if (!std::exchange(skip, true) && !visit(text.substr(0, kMaxMapLine), line_at)) {
        return at - from;
      }
      text = {};
    }
    kept = text.size();
    if (kept > 0) std::memmove(buffer.data(), text.data(), kept);
  }
  return at - from;
}

}  // namespace

absl::StatusOr<PerfMapNames> FindInPerfMap(int fd, std::span<const uint64_t> addresses,
                                           const PerfMapLimits& limits) {
  struct stat st;
  if (fstat(fd, &st) != 0) return ErrnoStatus("fstat", errno);
  const auto size = static_cast<uint64_t>(std::max<off_t>(st.st_size, 0));
  const uint64_t from = size - std::min(size, limits.max_bytes);
  PerfMapNames found;
  found.cut = from > 0;
  MapScan scan(addresses, limits.max_matches);
  // In the middle of a file the first line is the rest of one.
  ASSIGN_OR_RETURN(found.bytes_read,
                   ForEachLine(fd, from, size, from > 0, [&](std::string_view line, uint64_t at) {
                     const bool more = scan.OnLine(line, at);
                     found.cut |= !more;
                     return more;
                   }));
  found.malformed = scan.malformed();
  found.names = scan.ReadNames(fd);
  return found;
}

}  // namespace profd::symbolize
