// Where all functions of a file begin, for code that needs to know their neighbors.
#ifndef PROFD_DAEMON_SYMBOLIZE_INFER_FUNCTION_BEGINS_H_
#define PROFD_DAEMON_SYMBOLIZE_INFER_FUNCTION_BEGINS_H_

#include <cstdint>
#include <vector>

#include "daemon/elf/elf_file.h"

namespace profd::symbolize {

// Virtual addresses, ascending, each once: the search table of .eh_frame_hdr. Empty if there is no
// table in the form that all linkers write. At most two million.
std::vector<uint64_t> ReadFunctionBegins(const ElfFile& elf);

}  // namespace profd::symbolize

#endif  // PROFD_DAEMON_SYMBOLIZE_INFER_FUNCTION_BEGINS_H_
