// Names for functions without a symbol that exported functions end in.
#ifndef PROFD_DAEMON_SYMBOLIZE_JUMP_NAMES_H_
#define PROFD_DAEMON_SYMBOLIZE_JUMP_NAMES_H_

#include <span>

#include "daemon/elf/elf_file.h"
#include "daemon/symbolize/module_names.h"

namespace profd::symbolize {

// A library's exported functions often do no more than jump to one that is not exported, which then
// has no name, nor its caller a frame: glibc's pthread_mutex_clocklock and sem_wait are such. Gives
// those of `names` of which only the bounds are known (kBounds) the name of the exported function
// that jumps to their begin. Of up to four it is the one with the shortest name. A function that is
// also called, or to which more than four jump, is a helper and gets none. `source` becomes
// kInferred. C names only. x86-64. Reads nothing if all names are known, else .dynsym and small
// functions; and all code, up to 16 MiB (more: no names), if one of them jumps to such a function.
// Hostile input.
void NameByJumps(const ElfFile& elf, std::span<FoundName> names);

}  // namespace profd::symbolize

#endif  // PROFD_DAEMON_SYMBOLIZE_JUMP_NAMES_H_
