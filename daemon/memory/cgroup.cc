#include "daemon/memory/cgroup.h"

#include <algorithm>
#include <cstddef>
#include <limits>

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

std::string_view NameOf(CgroupController controller) {
  return controller == CgroupController::kCpu ? "cpu" : "memory";
}

// Thousandths of a CPU; none: no quota. See sched-bwc.rst and cgroup-v2.rst of the kernel.
std::optional<int64_t> ReadMillicpus(int version, const std::string& directory) {
  std::optional<int64_t> quota, period;
  if (version == 1) {
    quota = ReadNumber(directory + "/cpu.cfs_quota_us");  // -1: none
    period = ReadNumber(directory + "/cpu.cfs_period_us");
  } else if (absl::StatusOr<std::string> text =
                 ReadWholeFile(directory + "/cpu.max", kMostFileBytes);
             text.ok()) {
    // "max 100000" or "50000 100000"
    if (text->ends_with('\n')) text->pop_back();
    const std::vector<std::string_view> words = SplitAt(*text, ' ');
    if (words.size() == 2) {
      quota = ParseNumber(words[0]);
      period = ParseNumber(words[1]);
    }
  }
  if (!quota || !period || *quota <= 0 || *period <= 0 || *quota > kNoLimit / 1000) {
    return std::nullopt;
  }
  return *quota * 1000 / *period;
}

}  // namespace

std::optional<CgroupPlace> ParseCgroup(std::string_view text, CgroupController controller) {
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
    if (HasEntry(controllers, NameOf(controller))) {
      return CgroupPlace{1, std::string(path), controller};
    }
    if (line.substr(0, first) == "0" && controllers.empty()) {
      second = CgroupPlace{2, std::string(path), controller};
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
    if (right[0] == "cgroup") version = 1;
    if (version == 0) continue;
    mounts.mounts_.push_back(
        {version, std::string(right[2]), Unescape(left[3]), Unescape(left[4])});
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
    if (mount.version == 1 && !HasEntry(mount.controllers, NameOf(place.controller))) continue;
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

CpuQuota ReadCpuQuota(int version, const std::vector<std::string>& directories) {
  CpuQuota quota;
  if (directories.empty()) return quota;
  size_t level = 0;
  for (size_t i = 0; i < directories.size(); ++i) {
    const std::optional<int64_t> millicpus = ReadMillicpus(version, directories[i]);
    if (!millicpus || (quota.millicpus && *quota.millicpus <= *millicpus)) continue;
    quota.millicpus = millicpus;
    level = i;
  }
  const Keyed stat(directories[level] + "/cpu.stat");
  quota.level = static_cast<int64_t>(level);
  quota.periods = stat.Number("nr_periods");
  quota.throttled_periods = stat.Number("nr_throttled");
  quota.throttled_ns = stat.Number("throttled_time");
  if (const std::optional<int64_t> us = stat.Number("throttled_usec");
      us && *us <= std::numeric_limits<int64_t>::max() / 1000) {
    quota.throttled_ns = *us * 1000;
  }
  return quota;
}

}  // namespace profd
