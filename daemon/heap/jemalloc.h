// Finds jemalloc in a module, and in it the code that runs once per 64 KiB allocated or freed.
#ifndef PROFD_DAEMON_HEAP_JEMALLOC_H_
#define PROFD_DAEMON_HEAP_JEMALLOC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/status.h"
#include "daemon/heap/inlined_events.h"
#include "daemon/heap/probe_point.h"
#include "daemon/heap/sampled_objects.h"
#include "daemon/heap/slow_paths.h"
#include "daemon/symbolize/elf_file.h"

namespace profd {

// A function that is te_event_trigger, or looks like it.
struct EventFunction {
  uint64_t offset = 0;  // of its first instruction in the file
  ProbePoint point;     // from there
  friend bool operator==(const EventFunction&, const EventFunction&) = default;
};

struct JemallocInfo {
  // The release, "5.3.0"; commits since then are not told. Empty when the file does not say.
  std::string version;
  // How the event functions were found: "symbol", "debug file" or "shape". Empty when none was.
  std::string found_by;
  // By offset, ascending. More than one where a module holds several jemallocs, or has other
  // functions that look like it: what comes by there tells (struct profd_heap_tally).
  std::vector<EventFunction> events;
  // Where copies of it were put into its callers, which is where link-time optimisation likes to
  // have them. Of the two counts that a thread has, that of what it allocated lies first.
  std::vector<InlinedEvent> inlined;
  // Where events can be told late that neither of these sees; empty where no symbol says.
  std::vector<SlowPath> slow_paths;
  // Why the function was not found and what would bring it; empty when it was.
  std::string note;
  // What tells of the live heap.
  SampledObjects objects;
  // The environment variable that it takes settings from: "MALLOC_CONF", "_RJEM_MALLOC_CONF".
  std::string settings_variable;
};

// Looks into the regular file behind `fd`. `path` is where the target has it: it leads to a debug
// file under `debug_root` when the build-id does not. Empty when the module holds no jemalloc,
// which is known by its messages in the first 512 MiB of constants.
//
// A function is taken only if its code is as expected (event_shape.h), and of more than kMaxEvents
// none. Errors: InvalidArgument for what is not an x86-64 ELF file, and what reading gives. The
// file may lie, be sparse, or be cut short while it is read. May take a second for a large module
// with jemalloc in it and no symbols; the answer holds for all files of the same build-id.
inline constexpr size_t kMaxEvents = 8;
absl::StatusOr<std::optional<JemallocInfo>> FindJemalloc(
    int fd, const std::string& path, const std::string& debug_root = "/usr/lib/debug");

// Copies of the event in all functions of `elf`, by file offset, ascending. Errors as below.
absl::StatusOr<std::vector<InlinedEvent>> FindInlined(const symbolize::ElfFile& elf);

// File offsets of all functions of `elf` whose code is as expected of te_event_trigger, ascending.
// Errors: those of ListFunctions, and what reading gives.
absl::StatusOr<std::vector<uint64_t>> FindByShape(const symbolize::ElfFile& elf);

}  // namespace profd

#endif  // PROFD_DAEMON_HEAP_JEMALLOC_H_
