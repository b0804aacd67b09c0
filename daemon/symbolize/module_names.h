// Finds a name for addresses of one module: from symbols, else from the PLT, else from bounds.
#ifndef PROFD_DAEMON_SYMBOLIZE_MODULE_NAMES_H_
#define PROFD_DAEMON_SYMBOLIZE_MODULE_NAMES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/elf/elf_file.h"
#include "daemon/symbolize/name_source.h"

namespace profd::symbolize {

struct FoundName {
  std::string symbol;  // mangled; of kPlt: of the function that is called; of kBounds: empty
  uint64_t begin = 0;  // address at which the function begins
  NameSource source = NameSource::kNone;
  std::vector<std::string> other_names = {};  // mangled: other functions with that code
  uint32_t more_names = 0;                    // of further symbols there
};

// For each of `addresses` (virtual, ascending, each once). Symbols come from `elf` and, if it has
// no symbol table, from `debug` (may be null), a file with the symbols of the same code.
std::vector<FoundName> FindNames(const ElfFile& elf, const ElfFile* debug,
                                 const std::vector<uint64_t>& addresses);

}  // namespace profd::symbolize

#endif  // PROFD_DAEMON_SYMBOLIZE_MODULE_NAMES_H_
