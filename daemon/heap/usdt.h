// USDT probes of a module, from its section .note.stapsdt, and among them those by which an
// allocator tells of the objects that it samples: otel_memory:alloc and otel_memory:free.
#ifndef PROFD_DAEMON_HEAP_USDT_H_
#define PROFD_DAEMON_HEAP_USDT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bpf/abi.h"
#include "daemon/base/status.h"
#include "daemon/symbolize/elf_file.h"

namespace profd {

// A place of a probe, as its note tells it; the compiler makes several where it copied the code.
struct UsdtNote {
  std::string name;
  std::string arguments;   // "8@%rdi -4@$5 8@-16(%rbp)"
  uint64_t address = 0;    // virtual, of the instruction
  uint64_t semaphore = 0;  // virtual, of a 16-bit count of those who watch; 0: there is none
};

// The places of all probes of `provider`, in the order of the notes; what is not whole ends the
// list. Errors: ResourceExhausted for more than 1 MiB of notes or 256 places, and what reading
// gives.
absl::StatusOr<std::vector<UsdtNote>> ReadUsdtNotes(const symbolize::ElfFile& elf,
                                                    std::string_view provider);

// Reads the first `count` arguments of a probe, at most PROFD_USDT_ARGUMENTS; more may follow.
// InvalidArgument for too few, and for those that are not integers in registers, constants, or in
// memory that registers lead to.
absl::StatusOr<profd_usdt_spec> ParseUsdtArguments(const std::string& text, int count);

// Where a probe can be put.
struct UsdtPlace {
  uint64_t offset = 0;     // in the file
  bool stepped = false;    // on a nop that not every kernel emulates (probe_point.h)
  uint64_t semaphore = 0;  // in the file; 0: there is none
  profd_usdt_spec arguments{};
};

struct OtelMemory {
  std::vector<UsdtPlace> alloc, free;  // both or neither
  // Why some place, or all, cannot be watched; empty when all can be.
  std::string note;
};

// Looks into the regular file behind `fd`. Empty when it has no probe of that provider. A place is
// taken only if a no-op stands there. Errors: InvalidArgument for what is no x86-64 ELF file, and
// those above. The file may lie, be sparse, or be cut short while it is read.
absl::StatusOr<std::optional<OtelMemory>> FindOtelMemory(int fd);

}  // namespace profd

#endif  // PROFD_DAEMON_HEAP_USDT_H_
