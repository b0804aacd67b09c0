// Names for places in the data of a module.
#ifndef PROFD_DAEMON_SYMBOLIZE_DATA_NAMES_H_
#define PROFD_DAEMON_SYMBOLIZE_DATA_NAMES_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace profd {

// The variable in which a place lies.
struct DataName {
  std::string variable;  // demangled; empty: none is known
  uint64_t offset = 0;   // from its begin, bytes
};

// For each of `addresses` (virtual, in any order), by .symtab and .dynsym; without .symtab also by
// those of the debug file or .gnu_debugdata. Static and global variables have names, thread-local
// ones do not. All is read from `fd`, as far as the file goes, and not kept. Hostile input.
std::vector<DataName> NameData(int fd, const std::string& path,
                               std::span<const uint64_t> addresses);

// Where a module lies in memory.
struct ModuleExtent {
  uint64_t base = 0;   // virtual address of the first byte of the file
  uint64_t begin = 0;  // virtual addresses, of all segments, also of what is not in the file (.bss)
  uint64_t end = 0;
};
// Empty if no segment holds the first byte of the file behind `fd`.
ModuleExtent ExtentOf(int fd);

}  // namespace profd

#endif  // PROFD_DAEMON_SYMBOLIZE_DATA_NAMES_H_
