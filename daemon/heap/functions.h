// The functions of a module without symbols, from .eh_frame.
#ifndef PROFD_DAEMON_HEAP_FUNCTIONS_H_
#define PROFD_DAEMON_HEAP_FUNCTIONS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "daemon/base/status.h"
#include "daemon/elf/elf_file.h"

namespace profd {

// The code ranges that .eh_frame describes, by file offset, ascending, no offset twice. Parts of a
// function that the compiler split off count as functions. Empty without .eh_frame.
// ResourceExhausted if it is larger than 64 MiB or has more than 2 million entries.
absl::StatusOr<std::vector<symbolize::FileRange>> ListFunctions(const symbolize::ElfFile& elf);

// Calls `visit` with the first `limit` bytes of each of them, reading many at once. Errors as
// above, and read errors. ResourceExhausted also if the bytes exceed 512 MiB in total.
absl::Status VisitFunctions(
    const symbolize::ElfFile& elf, uint64_t limit,
    absl::FunctionRef<void(const symbolize::FileRange& function, std::span<const uint8_t> code)>
        visit);

}  // namespace profd

#endif  // PROFD_DAEMON_HEAP_FUNCTIONS_H_
