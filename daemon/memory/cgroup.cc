#include "daemon/memory/cgroup.h"

#include <algorithm>
#include <cstddef>

#include "daemon/base/fd.h"
#include "daemon/memory/fields.h"

namespace profd {
namespace {

constexpr size_t kMostFileBytes = 64 << 10;
// Deeper cgroups are not examined: the depth is up to whoever may create cgroups.
constexpr size_t kMostLevels = 64;
// In version 1, "no limit" is the largest multiple of the page size.
constexpr int64_t kNoLimit = int64_t{1} << 60;

bool HasEntry(std::string_view list, std::string_view entry) {
  const std::vector<std::string_view> entries = SplitAt(list, ',');
  return std::find(entries.begin(), entries.end(), entry) != entries.end();
}

// In mountinfo a space, tab, newline or backslash is written as \ and three octal digits.
std::string Unescape(std::string_view text) {
  std::string plain;
  while (!text.empty()) {
    const auto octal = [&](size_t i) { return text[i] >= '0' && text[i] <= '7'; };
    if (text[0] == '\\' && text.size() >= 4 && octal(1) && octal(2) && octal(3)) {
      const int code = (text[1] - '0') * 64 + (text[2] - '0') * 8 + (text[3] - '0');
      plain.push_back(static_cast<char>(code));
      text.remove_prefix(4);
    } else {
      plain.push_back(text[0]);
      text.remove_prefix(1);
    }
  }
  return plain;
}

// The part of `path` below `root`: empty, or beginning with a slash. None if it is not below it.
std::optional<std::string_view> Below(std::string_view path, std::string_view root) {
  if (root == "/") return path == "/" ? std::string_view() : path;
  if (!path.starts_with(root)) return std::nullopt;
  path.remove_prefix(root.size());
  if (!path.empty() && path[0] != '/') return std::nullopt;
  return path;
}

std::optional<int64_t> ReadNumber(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadWholeFile(path, kMostFileBytes);
  if (!text.ok()) return std::nullopt;
  std::string_view number = *text;
  if (number.ends_with('\n')) number.remove_suffix(1);
  return ParseNumber(number);
}

// The values of a file with lines "KEY NUMBER".
class Keyed {
 public:
  explicit Keyed(const std::string& path) {
    if (absl::StatusOr<std::string> text = ReadWholeFile(path, kMostFileBytes); text.ok()) {
      text_ = *std::move(text);
    }
  }
  std::optional<int64_t> Number(std::string_view key) const {
    for (const std::string_view line : SplitAt(text_, '\n')) {
      if (line.starts_with(key) && line.size() > key.size() && line[key.size()] == ' ') {
        return ParseNumber(line.substr(key.size() + 1));
      }
    }
    return std::nullopt;
  }

 private:
  std::string text_;
};

}  // namespace

std::optional<CgroupPlace> ParseCgroup(std::string_view text) {
  std::optional<CgroupPlace> second;
  for (const std::string_view line : SplitAt(text, '\n')) {
    // "hierarchy:controllers:path"; the path may hold colons.
    const size_t first = line.find(':');
    if (first == std::string_view::npos) continue;
    const size_t colon = line.find(':', first + 1);
    if (colon == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, colon - first - 1);
    const std::string_view path = line.substr(colon + 1);
    if (!path.starts_with('/')) continue;
    if (HasEntry(controllers, "memory")) return CgroupPlace{1, std::string(path)};
    if (line.substr(0, first) == "0" && controllers.empty()) {
      second = CgroupPlace{2, std::string(path)};
    }
  }
  return second;
}

CgroupMounts CgroupMounts::Parse(std::string_view mountinfo) {
  CgroupMounts mounts;
  for (const std::string_view line : SplitAt(mountinfo, '\n')) {
    // "36 35 98:0 ROOT POINT options [optional fields] - TYPE source SUPER", see proc(5).
    const size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    const std::vector<std::string_view> left = SplitAt(line.substr(0, dash), ' ');
    const std::vector<std::string_view> right = SplitAt(line.substr(dash + 3), ' ');
    if (left.size() < 6 || right.size() < 3) continue;
    int version = 0;
    if (right[0] == "cgroup2") version = 2;
    if (right[0] == "cgroup" && HasEntry(right[2], "memory")) version = 1;
    if (version == 0) continue;
    mounts.mounts_.push_back({version, Unescape(left[3]), Unescape(left[4])});
  }
  return mounts;
}

std::vector<std::string> CgroupMounts::DirectoriesOf(const CgroupPlace& place) const {
  std::vector<std::string> directories;
  const std::vector<std::string_view> parts = SplitAt(place.path, '/');
  // Outside of our cgroup namespace.
  if (std::find(parts.begin(), parts.end(), "..") != parts.end()) return directories;
  for (const Mount& mount : mounts_) {
    if (mount.version != place.version) continue;
    std::optional<std::string_view> below = Below(place.path, mount.root);
    if (!below) continue;
    if (static_cast<size_t>(std::count(below->begin(), below->end(), '/')) >= kMostLevels) break;
    for (; !below->empty(); *below = below->substr(0, below->rfind('/'))) {
      directories.push_back(mount.point + std::string(*below));
    }
    directories.push_back(mount.point);
    break;
  }
  return directories;
}

CgroupFigures ReadCgroup(int version, const std::vector<std::string>& directories) {
  CgroupFigures figures;
  if (directories.empty()) return figures;
  const std::string& own = directories.front();
  figures.current = ReadNumber(own + (version == 1 ? "/memory.usage_in_bytes" : "/memory.current"));
  for (const std::string& directory : directories) {
    const std::optional<int64_t> limit =
        ReadNumber(directory + (version == 1 ? "/memory.limit_in_bytes" : "/memory.max"));
    if (!limit || *limit >= kNoLimit) continue;
    figures.limit = std::min(*limit, figures.limit.value_or(*limit));
  }
  if (version == 1) {
    figures.limit_hits = ReadNumber(own + "/memory.failcnt");
    figures.oom_kills = Keyed(own + "/memory.oom_control").Number("oom_kill");
  } else {
    const Keyed events(own + "/memory.events");
    figures.limit_hits = events.Number("max");
    figures.high_hits = events.Number("high");
    figures.oom_kills = events.Number("oom_kill");
  }
  return figures;
}

}  // namespace profd
