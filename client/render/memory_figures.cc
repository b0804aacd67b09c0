#include "client/render/memory_figures.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace profctl {
namespace {

using profd::v1::GetMemoryResponse;
using profd::v1::MemoryPoint;
using profd::v1::ProcessMemory;

constexpr int64_t kMostFigure = int64_t{1} << 62;
constexpr double kSecondNs = 1e9;
constexpr double kLeastTrendS = 10;
// Number of values that a trend is fitted to.
constexpr size_t kTrendValues = 120;

absl::Status Damaged(std::string_view what) {
  return absl::DataLossError(absl::StrCat("the answer is damaged (", std::string(what),
                                          "); check that profd and profctl have the same version"));
}

bool IsFigure(int64_t value) { return value >= 0 && value <= kMostFigure; }

}  // namespace

const MemoryPoint& First(const ProcessMemory& process) { return process.points(0); }
const MemoryPoint& Last(const ProcessMemory& process) {
  return process.points(process.points_size() - 1);
}
int64_t DurationNs(const ProcessMemory& process) {
  return Last(process).time_ns() - First(process).time_ns();
}

std::optional<double> Rss(const MemoryPoint& point) {
  if (!point.has_rss_bytes()) return std::nullopt;
  return static_cast<double>(point.rss_bytes());
}
std::optional<double> Anonymous(const MemoryPoint& point) {
  if (!point.has_anon_bytes()) return std::nullopt;
  return static_cast<double>(point.anon_bytes());
}
std::optional<double> MinorFaults(const MemoryPoint& point) {
  if (!point.has_minor_faults()) return std::nullopt;
  return static_cast<double>(point.minor_faults());
}
std::optional<double> MajorFaults(const MemoryPoint& point) {
  if (!point.has_major_faults()) return std::nullopt;
  return static_cast<double>(point.major_faults());
}

// Growth of a cumulative figure per second, between the first and the last point that have it.
std::optional<double> PerSecond(const ProcessMemory& process, MemoryFigure figure) {
  const auto& points = process.points();
  const auto has = [&](const MemoryPoint& point) { return figure(point).has_value(); };
  const auto first = std::find_if(points.begin(), points.end(), has);
  const auto last = std::find_if(points.rbegin(), points.rend(), has);
  if (first == points.end()) return std::nullopt;
  const double begin = *figure(*first), end = *figure(*last);
  const int64_t duration_ns = last->time_ns() - first->time_ns();
  if (end < begin || duration_ns <= 0) return std::nullopt;
  return (end - begin) / static_cast<double>(duration_ns) * kSecondNs;
}

std::optional<Trend> RssTrend(const ProcessMemory& process) {
  return FitTrend(Resample(process, Rss, kTrendValues), DurationNs(process));
}

// Seconds until the cgroup's limit is reached at the rate at which the process grows.
std::optional<double> SecondsToLimit(const ProcessMemory& process,
                                     const std::optional<Trend>& trend) {
  const MemoryPoint& now = Last(process);
  if (!trend || trend->direction <= 0 || !now.has_cgroup_current_bytes() ||
      !now.has_cgroup_limit_bytes() || process.ended()) {
    return std::nullopt;
  }
  const auto room = static_cast<double>(now.cgroup_limit_bytes() - now.cgroup_current_bytes());
  return std::max(room, 0.0) / trend->bytes_per_minute * 60;
}

// Whether the whole live heap is known, not only later allocations. A program needs a moment to
// start its allocator, and profd to find it.
bool KnowsWholeHeap(const ProcessMemory& process) {
  constexpr int64_t kMomentNs = 2'000'000'000;
  return process.has_live_bytes() && process.live_since_ns() - kMomentNs <= process.started_ns();
}

// Resident or swapped anonymous memory that is not live heap. Unknown if more than that is live:
// then some live memory is not resident.
std::optional<int64_t> Fragmentation(const ProcessMemory& process) {
  const MemoryPoint& now = Last(process);
  if (!KnowsWholeHeap(process) || !now.has_anon_bytes()) return std::nullopt;
  const int64_t rest = now.anon_bytes() + now.swap_bytes() - process.live_bytes();
  return rest < 0 ? std::nullopt : std::optional(rest);
}

absl::Status CheckMemory(const GetMemoryResponse& memory) {
  const google::protobuf::Descriptor& type = *MemoryPoint::descriptor();
  const google::protobuf::Reflection& reflection = *MemoryPoint::GetReflection();
  for (const ProcessMemory& process : memory.processes()) {
    if (process.points().empty()) return Damaged("a process without points");
    int64_t before = 0;
    for (const MemoryPoint& point : process.points()) {
      for (int i = 0; i < type.field_count(); ++i) {
        const int64_t figure = reflection.GetInt64(point, type.field(i));
        if (!IsFigure(figure)) return Damaged("impossible sizes");
      }
      if (point.time_ns() < before) return Damaged("points that go back in time");
      before = point.time_ns();
    }
    for (const int64_t figure :
         {process.started_ns(), process.peak_rss_bytes(), process.allocated_bytes(),
          process.freed_bytes(), process.live_bytes(), process.mapped_bytes(),
          process.unmapped_bytes(), process.returned_bytes()}) {
      if (!IsFigure(figure)) return Damaged("impossible sizes");
    }
    for (const profd::v1::ThreadHeap& thread : process.threads()) {
      if (!IsFigure(thread.allocated_bytes()) || !IsFigure(thread.freed_bytes())) {
        return Damaged("impossible sizes");
      }
    }
  }
  return absl::OkStatus();
}

std::optional<Trend> FitTrend(const std::vector<double>& values, int64_t duration_ns) {
  const double duration_s = static_cast<double>(duration_ns) / kSecondNs;
  const auto at = [&](size_t i) {
    return duration_s * static_cast<double>(i) / static_cast<double>(values.size() - 1);
  };
  double n = 0, sum_t = 0, sum_v = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) continue;
    n += 1;
    sum_t += at(i);
    sum_v += values[i];
  }
  if (n < 3 || duration_s < kLeastTrendS) return std::nullopt;
  const double mean_t = sum_t / n;
  const double mean_v = sum_v / n;
  double tt = 0, tv = 0, vv = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) continue;
    const double t = at(i) - mean_t;
    const double v = values[i] - mean_v;
    tt += t * t;
    tv += t * v;
    vv += v * v;
  }
  if (!(tt > 0)) return std::nullopt;
  const double slope = tv / tt;
  // Standard deviation around the line.
  const double noise = std::sqrt(std::max(vv - slope * tv, 0.0) / n);
  const double change = slope * duration_s;
  Trend trend{.bytes_per_minute = slope * 60, .direction = 0};
  if (std::abs(change) > std::max(kLeastChangeShare * mean_v, 2 * noise)) {
    trend.direction = change > 0 ? 1 : -1;
  }
  return trend;
}

std::vector<double> Resample(const ProcessMemory& process, MemoryFigure figure, size_t count) {
  std::vector<double> values(count, std::numeric_limits<double>::quiet_NaN());
  if (process.points().empty()) return values;
  const int64_t begin_ns = First(process).time_ns();
  const auto duration = static_cast<double>(DurationNs(process));
  int next = 0;  // the first point that does not lie before the instant
  for (size_t i = 0; i < count; ++i) {
    const double at =
        duration * static_cast<double>(i) / static_cast<double>(std::max<size_t>(count - 1, 1));
    const auto offset = [&](int point) {
      return static_cast<double>(process.points(point).time_ns() - begin_ns);
    };
    while (next + 1 < process.points_size() && offset(next) < at) ++next;
    const std::optional<double> after = figure(process.points(next));
    if (!after) continue;
    values[i] = *after;
    if (next == 0 || offset(next) <= at) continue;
    const std::optional<double> before = figure(process.points(next - 1));
    if (!before) continue;
    const double part = (at - offset(next - 1)) / (offset(next) - offset(next - 1));
    values[i] = *before + (*after - *before) * part;
  }
  return values;
}

}  // namespace profctl
