// The functions of a module that has no symbols: .eh_frame tells where each begins.
#ifndef PROFD_DAEMON_HEAP_FUNCTIONS_H_
#define PROFD_DAEMON_HEAP_FUNCTIONS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "daemon/base/status.h"
#include "daemon/symbolize/elf_file.h"

namespace profd {

// What .eh_frame describes of `elf`'s code, by file offset, ascending, no offset twice. Parts of a
// function that the compiler set apart are functions here. Empty without .eh_frame.
// ResourceExhausted when it is larger than 64 MiB or has more than 2 million entries.
absl::StatusOr<std::vector<symbolize::FileRange>> ListFunctions(const symbolize::ElfFile& elf);

// Reads the first `limit` bytes of every one of them, many at once, and hands them to `visit`.
// Errors as above, and what reading gives. ResourceExhausted too when these are more than 512 MiB
// in all.
absl::Status VisitFunctions(
    const symbolize::ElfFile& elf, uint64_t limit,
    absl::FunctionRef<void(const symbolize::FileRange& function, std::span<const uint8_t> code)>
        visit);

}  // namespace profd

#endif  // PROFD_DAEMON_HEAP_FUNCTIONS_H_
