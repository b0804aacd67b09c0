// What processes hold of memory, for people and for machines.
#ifndef PROFD_CLIENT_RENDER_MEMORY_H_
#define PROFD_CLIENT_RENDER_MEMORY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "profd/v1/profiler.pb.h"

namespace profctl {

// Of these, the largest ones, a page tells in full.
inline constexpr int kMostMemoryBlocks = 5;

struct MemoryReport {
  profd::v1::GetMemoryResponse memory;
  bool past = false;  // the window ends before now
};

// DataLoss for what no daemon would send, so that the renderers can trust what they add up: every
// process has points, in the order of time, and no figure is negative or beyond 2^62.
absl::Status CheckMemory(const profd::v1::GetMemoryResponse& memory);

// How a figure changed.
struct Trend {
  double bytes_per_minute = 0;
  // +1, -1; 0: the change in all the time is less than 0.2 % of the figure, or may be noise.
  int direction = 0;
};
// By least squares; `values` lie evenly in `duration_ns`, NaN: not known. None where there are
// fewer than three or less than 10 s.
std::optional<Trend> FitTrend(const std::vector<double>& values, int64_t duration_ns);

// The figure of the points at `count` instants, evenly from the first point to the last, by
// straight lines between points; NaN where it is not known.
using MemoryFigure = std::optional<double> (*)(const profd::v1::MemoryPoint& point);
std::vector<double> Resample(const profd::v1::ProcessMemory& process, MemoryFigure figure,
                             size_t count);

// At most 100 columns. `unicode`: the terminal shows more than ASCII.
std::string RenderMemoryText(const MemoryReport& report, bool colour, bool unicode);
std::string RenderMemoryJson(const MemoryReport& report);

// "RSS 1.24 GiB (+12.3 MiB in 60.0 s), anonymous 1.10 GiB, ...": the line in the summary of a
// fetch. `heap_ns`: what the bytes of allocations were counted in.
std::string DescribeMemoryLine(const profd::v1::MemoryLine& line, int64_t heap_ns);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_MEMORY_H_
