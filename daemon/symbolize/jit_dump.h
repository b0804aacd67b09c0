// A jitdump: the file in which a just-in-time compiler hands over its code to perf, jit-PID.dump.
// Format: tools/perf/Documentation/jitdump-specification.txt of Linux.
#ifndef PROFD_DAEMON_SYMBOLIZE_JIT_DUMP_H_
#define PROFD_DAEMON_SYMBOLIZE_JIT_DUMP_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "daemon/base/status.h"
#include "daemon/symbolize/perf_map.h"

namespace profd::symbolize {

// Limits for hostile files.
struct JitDumpLimits {
  uint64_t max_records = uint64_t{1} << 20;  // some half a second's work
  uint64_t max_matches = uint64_t{1} << 24;  // records × the addresses that they contain
};

// The PID in the name of a jitdump, as processes name it: 12 of "/tmp/.debug/jit-12.dump"; 0 for
// other names.
int32_t PidOfJitDump(std::string_view path);

// Names for `addresses` (ascending, each once) from a regular file: of the last code that was
// loaded or moved there. The code itself, lines and unwinding information are skipped. A record at
// the end that is not whole is ignored: it may still be written. `malformed` counts records that
// are too short. Names are bytes of any kind, cut after 4 KiB. Hostile input. Errors:
// InvalidArgument if it is no jitdump of this machine's byte order; what fstat and pread give.
absl::StatusOr<PerfMapNames> FindInJitDump(int fd, std::span<const uint64_t> addresses,
                                           const JitDumpLimits& limits = {});

}  // namespace profd::symbolize

#endif  // PROFD_DAEMON_SYMBOLIZE_JIT_DUMP_H_
