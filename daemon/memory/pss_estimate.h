// Estimates the proportional set size of processes for which reading it takes too long.
#ifndef PROFD_DAEMON_MEMORY_PSS_ESTIMATE_H_
#define PROFD_DAEMON_MEMORY_PSS_ESTIMATE_H_

#include <cstdint>
#include <random>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/memory/process_memory.h"

namespace profd {

// Bytes. The true value is within `error` of `pss` in about 95 of 100 estimates.
struct PssEstimate {
  int64_t pss = 0;
  int64_t error = 0;
};

// A part of an address space.
struct PageRange {
  uint64_t first = 0;  // address / page size
  uint64_t count = 0;
};

// The accessible mappings in the text of /proc/PID/maps; the others only reserve addresses. Skips
// malformed lines.
std::vector<PageRange> AccessibleRanges(absl::string_view maps);

// Reads runs of 512 pages at random places, or all runs if there are few. For each page
// /proc/PID/pagemap says whether it is present and whether only this process maps it
// (Documentation/admin-guide/mm/pagemap.rst, bits 63 and 56). A shared page counts between zero and
// a half. Each run holds the process's memory map lock for a few microseconds, whereas smaps_rollup
// holds it for a whole mapping.
//
// Takes about `most_cpu_ns` of CPU time. `rss`: of the process, bytes. NotFound: the process
// exited, or no page was found. PermissionDenied: it may not be read.
absl::StatusOr<PssEstimate> EstimatePss(const ProcessDirectory& directory, int64_t rss,
                                        int64_t most_cpu_ns, std::mt19937_64* random);

}  // namespace profd

#endif  // PROFD_DAEMON_MEMORY_PSS_ESTIMATE_H_
