// Where debug files lie, and which one belongs to a module.
#ifndef PROFD_DAEMON_SYMBOLIZE_DEBUG_SEARCH_H_
#define PROFD_DAEMON_SYMBOLIZE_DEBUG_SEARCH_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/fd.h"
#include "daemon/elf/elf_file.h"
#include "daemon/symbolize/debug_file.h"

namespace profd::symbolize {

inline constexpr std::string_view kDebugRoot = "/usr/lib/debug";

// "/.build-id/ab/cdef.debug": where a directory of debug files has the one with this build-id (hex,
// more than two digits).
std::string BuildIdPath(const std::string& build_id);

// Opens a file of this machine, or below the directory `root` unless that is negative: then no
// symbolic link leads out of it. Not ok() unless it is a regular file of a sensible size. Nothing
// else is opened: opening a device may do something.
UniqueFd OpenRegularFile(int root, const std::string& path);

struct DebugPlaces {
  int target_root = -1;        // the root directory of the target, an open directory; -1: not known
  std::string own_root = "/";  // that of profd
  std::vector<std::string> directories = {};  // more of them, as /usr/lib/debug
};

// The debug file of the module `elf`, whose path was `path`. In each root:
// /usr/lib/debug/.build-id, and the name in .gnu_debuglink beside the module, in its .debug, and
// below /usr/lib/debug. In `directories`: .build-id, the same name below it, and every file that
// lies directly in it. The first file that belongs to the module is taken:
// - it has the same build-id, or
// - it has the name and the checksum of .gnu_debuglink, or
// - its .text and .eh_frame are equal to those of the module.
// The target's root is hostile: no symbolic link leads out of it, and only regular files are
// opened.
std::optional<DebugFile> SearchDebugFile(const ElfFile& elf, const std::string& path,
                                         const DebugPlaces& places);

}  // namespace profd::symbolize

#endif  // PROFD_DAEMON_SYMBOLIZE_DEBUG_SEARCH_H_
