// What the code of a file is, so that another file with the same code can be found.
#ifndef PROFD_DAEMON_SYMBOLIZE_MODULE_CODE_H_
#define PROFD_DAEMON_SYMBOLIZE_MODULE_CODE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/elf/elf_file.h"

namespace profd::symbolize {

struct ModuleCode {
  // See CodeIdOf; empty: not known.
  std::string id;
  // Executable PT_LOAD segments.
  std::vector<Segment> segments;
};

// Addresses, sizes and checksums (CRC-32) of .text and .eh_frame. To strip a file does not change
// them, nor does another build of the same code with debug info. Empty if one of both is missing or
// empty, as in a file with nothing but debug info, or if they are larger than `*bytes_left`, which
// is lowered by what is read.
std::string CodeIdOf(const ElfFile& elf, uint64_t* bytes_left);

// The executable segments, at most 16.
std::vector<Segment> CodeSegmentsOf(const ElfFile& elf);

}  // namespace profd::symbolize

#endif  // PROFD_DAEMON_SYMBOLIZE_MODULE_CODE_H_
