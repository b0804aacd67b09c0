// Where a module keeps its constants.
#ifndef PROFD_DAEMON_HEAP_CONSTANTS_H_
#define PROFD_DAEMON_HEAP_CONSTANTS_H_

#include <vector>

#include "daemon/elf/elf_file.h"

namespace profd {

// Read-only ranges without code, 512 MiB at most.
std::vector<symbolize::FileRange> FindConstants(const symbolize::ElfFile& elf);

}  // namespace profd

#endif  // PROFD_DAEMON_HEAP_CONSTANTS_H_
