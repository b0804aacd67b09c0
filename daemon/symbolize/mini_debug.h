// The symbols in .gnu_debugdata: a small ELF file, compressed with xz, inside of the module.
#ifndef PROFD_DAEMON_SYMBOLIZE_MINI_DEBUG_H_
#define PROFD_DAEMON_SYMBOLIZE_MINI_DEBUG_H_

#include <optional>

#include "daemon/elf/elf_file.h"
#include "daemon/symbolize/debug_file.h"

namespace profd::symbolize {

// None if `elf` has no such section, or if it is damaged or too large. Hostile input: memory and
// time are bounded.
std::optional<DebugFile> OpenMiniDebug(const ElfFile& elf);

}  // namespace profd::symbolize

#endif  // PROFD_DAEMON_SYMBOLIZE_MINI_DEBUG_H_
