// Separate debug files of this machine: /usr/lib/debug, by build-id or by .gnu_debuglink.
#ifndef PROFD_DAEMON_SYMBOLIZE_DEBUG_FILE_H_
#define PROFD_DAEMON_SYMBOLIZE_DEBUG_FILE_H_

#include <optional>
#include <string>

#include "daemon/base/fd.h"
#include "daemon/elf/elf_file.h"

namespace profd::symbolize {

struct DebugFile {
  UniqueFd fd;
  ElfFile elf;  // reads from fd
};

// Whether a file has DWARF, compressed or not.
bool HasDebugInfo(const ElfFile& elf);

// The debug file of `elf`, whose build-id (hex) is `build_id` and whose path was `path`. Only a
// file with the same build-id is taken, so nothing is found for an empty one.
std::optional<DebugFile> OpenDebugFile(const ElfFile& elf, const std::string& build_id,
                                       const std::string& path,
                                       const std::string& root = "/usr/lib/debug");

}  // namespace profd::symbolize

#endif  // PROFD_DAEMON_SYMBOLIZE_DEBUG_FILE_H_
