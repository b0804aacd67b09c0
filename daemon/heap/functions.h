// The functions of a module that has no symbols: .eh_frame tells where each begins.
#ifndef PROFD_DAEMON_HEAP_FUNCTIONS_H_
#define PROFD_DAEMON_HEAP_FUNCTIONS_H_

#include <vector>

#include "daemon/base/status.h"
#include "daemon/symbolize/elf_file.h"

namespace profd {

// What .eh_frame describes of `elf`'s code, by file offset, ascending, no offset twice. Parts of a
// function that the compiler set apart are functions here. Empty without .eh_frame.
// ResourceExhausted when it is larger than 64 MiB or has more than 2 million entries.
absl::StatusOr<std::vector<symbolize::FileRange>> ListFunctions(const symbolize::ElfFile& elf);

}  // namespace profd

#endif  // PROFD_DAEMON_HEAP_FUNCTIONS_H_
