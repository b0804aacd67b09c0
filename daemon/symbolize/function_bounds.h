// Where functions begin and end, without symbols: from .eh_frame, else from .debug_frame.
#ifndef PROFD_DAEMON_SYMBOLIZE_FUNCTION_BOUNDS_H_
#define PROFD_DAEMON_SYMBOLIZE_FUNCTION_BOUNDS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "daemon/elf/elf_file.h"

namespace profd::symbolize {

// Virtual addresses.
struct FunctionBounds {
  uint64_t begin = 0;
  uint64_t end = 0;
  bool Contains(uint64_t address) const { return address >= begin && address < end; }
};

// The function around each of `addresses` (ascending), as .eh_frame describes it; nothing where it
// describes none. Reads the table of .eh_frame_hdr in pieces, and a few bytes for each address.
// Without a usable table it reads the whole .eh_frame, and where that says nothing the whole
// .debug_frame, if they are not too large. Hostile input.
std::vector<std::optional<FunctionBounds>> FindBounds(const ElfFile& elf,
                                                      std::span<const uint64_t> addresses);

}  // namespace profd::symbolize

#endif  // PROFD_DAEMON_SYMBOLIZE_FUNCTION_BOUNDS_H_
