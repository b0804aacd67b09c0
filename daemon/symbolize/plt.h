// Which function an entry of the procedure linkage table (PLT) calls. x86-64.
#ifndef PROFD_DAEMON_SYMBOLIZE_PLT_H_
#define PROFD_DAEMON_SYMBOLIZE_PLT_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "daemon/elf/elf_file.h"
#include "daemon/symbolize/function_bounds.h"

namespace profd::symbolize {

struct PltEntry {
  FunctionBounds bounds;  // of the entry; empty for an address outside of every PLT
  std::string name;       // of the function, mangled and without version; "" if it has none
};

// The entry around each of `addresses` (ascending). The target of an entry comes from its own
// instructions and from the relocation of the pointer that they use, so every linker's layout
// works: .plt, .plt.sec and .plt.got. Hostile input.
std::vector<PltEntry> FindPltEntries(const ElfFile& elf, std::span<const uint64_t> addresses);

}  // namespace profd::symbolize

#endif  // PROFD_DAEMON_SYMBOLIZE_PLT_H_
