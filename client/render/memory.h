// The memory of processes, as a page and as JSON.
#ifndef PROFD_CLIENT_RENDER_MEMORY_H_
#define PROFD_CLIENT_RENDER_MEMORY_H_

#include <cstdint>
#include <string>

#include "profd/v1/profiler.pb.h"

namespace profctl {

// Number of processes that a page shows in full, the largest.
inline constexpr int kMostMemoryBlocks = 5;

struct MemoryReport {
  profd::v1::GetMemoryResponse memory;
  bool past = false;  // the window ends before now
};

// `unicode`: the terminal shows more than ASCII.
std::string RenderMemoryText(const MemoryReport& report, bool colour, bool unicode);
std::string RenderMemoryJson(const MemoryReport& report);

// "RSS 1.24 GiB (+12.3 MiB in 60.0 s), anonymous 1.10 GiB, ...": the line in the summary of a
// fetch. `heap_ns`: the time in which allocated bytes were counted.
std::string DescribeMemoryLine(const profd::v1::MemoryLine& line, int64_t heap_ns);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_MEMORY_H_
