// Finds jemalloc in a module, and the code that runs once per 64 KiB allocated or freed.
#ifndef PROFD_DAEMON_HEAP_JEMALLOC_H_
#define PROFD_DAEMON_HEAP_JEMALLOC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/status.h"
#include "daemon/elf/elf_file.h"
#include "daemon/heap/inlined_events.h"
#include "daemon/heap/probe_point.h"
#include "daemon/heap/sampled_objects.h"
#include "daemon/heap/slow_paths.h"

namespace profd {

// A function that is te_event_trigger, or looks like it.
struct EventFunction {
  uint64_t offset = 0;  // file offset of its first instruction
  ProbePoint point;     // relative to that
  friend bool operator==(const EventFunction&, const EventFunction&) = default;
};

struct JemallocInfo {
  // The release, "5.3.0", without later commits. Empty if the file does not say.
  std::string version;
  // How the event functions were found: "symbol", "debug file" or "shape". Empty if none was.
  std::string found_by;
  // By offset, ascending. More than one if a module contains several jemallocs, or other functions
  // that look like it; their hits show which are real (struct profd_heap_tally).
  std::vector<EventFunction> events;
  // Copies in its callers, made by link-time optimisation. Of a thread's two counts, that of
  // allocated bytes comes first in memory.
  std::vector<InlinedEvent> inlined;
  // Where events that neither of these sees can be reported late; empty without symbols.
  std::vector<SlowPath> slow_paths;
  // Why the function was not found and what would help; empty if it was found.
  std::string note;
  // Probes and settings of the live heap.
  SampledObjects objects;
  // The environment variable for its settings: "MALLOC_CONF", "_RJEM_MALLOC_CONF".
  std::string settings_variable;
};

// Examines the regular file behind `fd`. `path` is its path in the target; it leads to a debug file
// under `debug_root` if the build-id does not. Empty if the module contains no jemalloc, which is
// recognised by its messages in the first 512 MiB of constants.
//
// A function is accepted only if its code is as expected (event_shape.h); with more than kMaxEvents
// none is. Errors: InvalidArgument if it is not an x86-64 ELF file, and read errors. The file may
// be malformed or sparse, or may be truncated while it is read. May take a second for a large
// module with jemalloc and without symbols. The answer is valid for all files with the same
// build-id.
inline constexpr size_t kMaxEvents = 8;
absl::StatusOr<std::optional<JemallocInfo>> FindJemalloc(
    int fd, const std::string& path, const std::string& debug_root = "/usr/lib/debug");

// Copies of the event in all functions of `elf`, by file offset, ascending. Errors as below.
absl::StatusOr<std::vector<InlinedEvent>> FindInlined(const symbolize::ElfFile& elf);

// File offsets of all functions of `elf` that look like te_event_trigger, ascending. Errors: those
// of ListFunctions, and read errors.
absl::StatusOr<std::vector<uint64_t>> FindByShape(const symbolize::ElfFile& elf);

}  // namespace profd

#endif  // PROFD_DAEMON_HEAP_JEMALLOC_H_
