// Where the code lies by which interrupts enter the kernel.
#ifndef PROFD_DAEMON_KERNEL_ENTRY_CODE_H_
#define PROFD_DAEMON_KERNEL_ENTRY_CODE_H_

#include <cstdint>
#include <istream>

namespace profd {

// Kernel addresses, [begin, end). Both 0: not known.
struct EntryCode {
  uint64_t begin = 0, end = 0;
};

// Finds it in a list of symbols as in /proc/kallsyms. Exceptions enter by code before it.
EntryCode FindEntryCode(std::istream& symbols);

}  // namespace profd

#endif  // PROFD_DAEMON_KERNEL_ENTRY_CODE_H_
