// Figures derived from the memory of processes: rates, trends, fragmentation.
#ifndef PROFD_CLIENT_RENDER_MEMORY_FIGURES_H_
#define PROFD_CLIENT_RENDER_MEMORY_FIGURES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "profd/v1/profiler.pb.h"

namespace profctl {

// DataLoss for impossible values, so that renderers can trust their sums: every process has points
// in the order of time, and no figure is negative or beyond 2^62.
absl::Status CheckMemory(const profd::v1::GetMemoryResponse& memory);

// The process has points: CheckMemory passed.
const profd::v1::MemoryPoint& First(const profd::v1::ProcessMemory& process);
const profd::v1::MemoryPoint& Last(const profd::v1::ProcessMemory& process);
int64_t DurationNs(const profd::v1::ProcessMemory& process);

// One figure of a point; none: unknown.
using MemoryFigure = std::optional<double> (*)(const profd::v1::MemoryPoint& point);
std::optional<double> Rss(const profd::v1::MemoryPoint& point);
std::optional<double> Anonymous(const profd::v1::MemoryPoint& point);
std::optional<double> MinorFaults(const profd::v1::MemoryPoint& point);
std::optional<double> MajorFaults(const profd::v1::MemoryPoint& point);

// Growth of a cumulative figure per second.
std::optional<double> PerSecond(const profd::v1::ProcessMemory& process, MemoryFigure figure);

// Changes below this share of a figure are too small to matter.
inline constexpr double kLeastChangeShare = 0.002;

// How a figure changed.
struct Trend {
  double bytes_per_minute = 0;
  // +1, -1; 0: the whole change is less than 0.2 % of the figure, or may be noise.
  int direction = 0;
};
// By least squares. `values` are evenly spaced in `duration_ns`; NaN: unknown. None for fewer than
// three values or less than 10 s.
std::optional<Trend> FitTrend(const std::vector<double>& values, int64_t duration_ns);

// The figure at `count` evenly spaced instants, interpolated between points; NaN: unknown.
std::vector<double> Resample(const profd::v1::ProcessMemory& process, MemoryFigure figure,
                             size_t count);

std::optional<Trend> RssTrend(const profd::v1::ProcessMemory& process);
// Seconds until the cgroup's limit is reached at the rate at which the process grows.
std::optional<double> SecondsToLimit(const profd::v1::ProcessMemory& process,
                                     const std::optional<Trend>& trend);

// Whether the whole live heap is known, not only later allocations. A program needs a moment to
// start its allocator, and profd to find it.
bool KnowsWholeHeap(const profd::v1::ProcessMemory& process);
// Resident or swapped anonymous memory that is not live heap. Unknown if more than that is live:
// then some live memory is not resident.
std::optional<int64_t> Fragmentation(const profd::v1::ProcessMemory& process);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_MEMORY_FIGURES_H_
