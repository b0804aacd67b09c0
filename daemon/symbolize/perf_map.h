// A perf map: the list in which a process says what code it made at run time, /tmp/perf-PID.map.
#ifndef PROFD_DAEMON_SYMBOLIZE_PERF_MAP_H_
#define PROFD_DAEMON_SYMBOLIZE_PERF_MAP_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "daemon/base/status.h"

namespace profd::symbolize {

// Limits for hostile files.
struct PerfMapLimits {
  uint64_t max_bytes = 64 << 20;             // of a longer file its end is read
  uint64_t max_matches = uint64_t{1} << 24;  // lines × the addresses that they contain
};

struct PerfMapNames {
  std::vector<std::string> names;  // one for each address; "" if no line contains it
  uint64_t bytes_read = 0;
  uint64_t malformed = 0;  // lines
  bool cut = false;        // a limit was reached, names may be missing or old
};

// Names for `addresses` (ascending, each once) from a regular file. A line is "START SIZE NAME",
// with hexadecimal numbers. Code moves and is replaced, so the last line that contains an address
// counts. A last line without its end is ignored: it may still be written. Names are bytes of any
// kind, cut after 4 KiB. Hostile input. Errors: what fstat and pread give.
absl::StatusOr<PerfMapNames> FindInPerfMap(int fd, std::span<const uint64_t> addresses,
                                           const PerfMapLimits& limits = {});

}  // namespace profd::symbolize

#endif  // PROFD_DAEMON_SYMBOLIZE_PERF_MAP_H_
