// USDT probes of a module, from its section .note.stapsdt. Among them are those at which a program
// reports the objects that it samples: otel_memory:alloc and otel_memory:free.
#ifndef PROFD_DAEMON_HEAP_USDT_H_
#define PROFD_DAEMON_HEAP_USDT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bpf/abi.h"
#include "daemon/base/status.h"
#include "daemon/elf/elf_file.h"

namespace profd {

// A place of a probe, from its note. A probe has several places if the compiler copied the code.
struct UsdtNote {
  std::string name;
  std::string arguments;   // "8@%rdi -4@$5 8@-16(%rbp)"
  uint64_t address = 0;    // virtual, of the instruction
  uint64_t semaphore = 0;  // virtual, of a 16-bit count of watchers; 0: none
};

// The places of all probes of `provider`, in the order of the notes. An incomplete note ends the
// list. Errors: ResourceExhausted for more than 1 MiB of notes or 256 places, and read errors.
absl::StatusOr<std::vector<UsdtNote>> ReadUsdtNotes(const symbolize::ElfFile& elf,
                                                    std::string_view provider);

// Parses the first `count` arguments of a probe, at most PROFD_USDT_ARGUMENTS; more may follow.
// InvalidArgument for too few, and for arguments other than integers in registers, constants, and
// memory addressed by registers.
absl::StatusOr<profd_usdt_spec> ParseUsdtArguments(const std::string& text, int count);

// Where a probe can be attached.
struct UsdtPlace {
  uint64_t offset = 0;     // in the file
  bool stepped = false;    // on a nop that not every kernel emulates (probe_point.h)
  uint64_t semaphore = 0;  // in the file; 0: none
  profd_usdt_spec arguments{};
};

struct OtelMemory {
  std::vector<UsdtPlace> alloc, free;  // both or neither
  // Why some or all places cannot be watched; empty if all can.
  std::string note;
};

// Examines the regular file behind `fd`. Empty if it has no probe of that provider. A place is
// accepted only if it is a nop. Errors: InvalidArgument if it is not an x86-64 ELF file, and those
// above. The file may be malformed or sparse, or may be truncated while it is read.
absl::StatusOr<std::optional<OtelMemory>> FindOtelMemory(int fd);

}  // namespace profd

#endif  // PROFD_DAEMON_HEAP_USDT_H_
