// Functions of jemalloc that every thread comes through now and then, not at every call: where the
// events of an allocator are told late when some run through code that was not found.
#ifndef PROFD_DAEMON_HEAP_SLOW_PATHS_H_
#define PROFD_DAEMON_HEAP_SLOW_PATHS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/heap/probe_point.h"
#include "daemon/symbolize/elf_file.h"

namespace profd {

// Its first argument is the thread's data (tsd).
struct SlowPath {
  uint64_t offset = 0;  // of its first instruction in the file
  ProbePoint point;     // from there
  bool frees = false;   // it gives memory back; the others get some
  friend bool operator==(const SlowPath&, const SlowPath&) = default;
};

// Where a thread's data of jemalloc 5.3 (tsd.h, TSD_DATA_SLOW) hold its counts as of the last
// event, bytes from their begin.
inline constexpr int32_t kAllocatedAtLastEvent = 8;
inline constexpr int32_t kFreedAtLastEvent = 24;

// By the symbols of `module`, else of its debug file, which is sought as FindJemalloc does it; by
// offset, ascending. Empty where no symbol names them, and for a `version` other than 5.3.
std::vector<SlowPath> FindSlowPaths(const symbolize::ElfFile& module, const std::string& path,
                                    const std::string& debug_root, const std::string& version);

}  // namespace profd

#endif  // PROFD_DAEMON_HEAP_SLOW_PATHS_H_
