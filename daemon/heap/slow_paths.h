// Functions of jemalloc's slow path, which every thread enters now and then. They report events
// late if some events run through code that was not found.
#ifndef PROFD_DAEMON_HEAP_SLOW_PATHS_H_
#define PROFD_DAEMON_HEAP_SLOW_PATHS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/elf/elf_file.h"
#include "daemon/heap/probe_point.h"

namespace profd {

// Its first argument is the thread's data (tsd).
struct SlowPath {
  uint64_t offset = 0;  // file offset of its first instruction
  ProbePoint point;     // relative to that
  bool frees = false;   // it frees memory; the others allocate
  friend bool operator==(const SlowPath&, const SlowPath&) = default;
};

// Offsets of the counts as of the last event in a thread's data (jemalloc 5.3: tsd.h,
// TSD_DATA_SLOW), bytes.
inline constexpr int32_t kAllocatedAtLastEvent = 8;
inline constexpr int32_t kFreedAtLastEvent = 24;

// By the symbols of `module`, else of its debug file, found like in FindJemalloc; by offset,
// ascending. Empty if no symbol names them, and for a `version` other than 5.3.
std::vector<SlowPath> FindSlowPaths(const symbolize::ElfFile& module, const std::string& path,
                                    const std::string& debug_root, const std::string& version);

}  // namespace profd

#endif  // PROFD_DAEMON_HEAP_SLOW_PATHS_H_
