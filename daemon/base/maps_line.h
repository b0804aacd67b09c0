// A line of /proc/PID/maps.
#ifndef PROFD_DAEMON_BASE_MAPS_LINE_H_
#define PROFD_DAEMON_BASE_MAPS_LINE_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace profd {

// A mapping, its views into the line.
struct MapsLine {
  uint64_t begin = 0, end = 0;  // addresses
  uint64_t file_offset = 0;     // of what lies at `begin`
  absl::string_view access;     // "r-xp"
  absl::string_view path;       // also "[heap]" and the like; empty where there is none
};

// "begin-end access offset device inode   path", without its newline (proc_pid_maps(5)). Empty when
// it is no such line, or of no addresses.
std::optional<MapsLine> ParseMapsLine(absl::string_view line);

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_MAPS_LINE_H_
