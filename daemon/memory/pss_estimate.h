// The proportional set size of a process that is too large to be asked for it.
#ifndef PROFD_DAEMON_MEMORY_PSS_ESTIMATE_H_
#define PROFD_DAEMON_MEMORY_PSS_ESTIMATE_H_

#include <cstdint>
#include <random>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/memory/process_memory.h"

namespace profd {

// Bytes. The truth lies within `error` of `pss` in some 95 of 100 estimates.
struct PssEstimate {
  int64_t pss = 0;
  int64_t error = 0;
};

// A part of an address space.
struct PageRange {
  uint64_t first = 0;  // address / page size
  uint64_t count = 0;
};

// The mappings in a text of /proc/PID/maps that a program has access to; others only keep addresses
// free. Lines that are none are passed over.
std::vector<PageRange> AccessibleRanges(absl::string_view maps);

// Looks at runs of 512 pages in random places, in all of them where there are few: what the kernel
// says of a page in /proc/PID/pagemap is whether it is there and whether this process alone maps it
// (Documentation/admin-guide/mm/pagemap.rst, bits 63 and 56). A page that is shared counts between
// nothing and a half. Each run holds the process's memory map for some microseconds, where
// smaps_rollup holds it for as long as a whole mapping takes.
//
// Takes `most_cpu_ns` of the calling thread or little more. `rss`: of the process, bytes.
// NotFound: it is gone, or no page of it was found. PermissionDenied: it may not be looked at.
absl::StatusOr<PssEstimate> EstimatePss(const ProcessDirectory& directory, int64_t rss,
                                        int64_t most_cpu_ns, std::mt19937_64* random);

}  // namespace profd

#endif  // PROFD_DAEMON_MEMORY_PSS_ESTIMATE_H_
