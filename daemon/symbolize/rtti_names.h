// Names virtual functions of C++ programs without symbols, by their classes.
#ifndef PROFD_DAEMON_SYMBOLIZE_RTTI_NAMES_H_
#define PROFD_DAEMON_SYMBOLIZE_RTTI_NAMES_H_

#include <span>
#include <string>
#include <string_view>

#include "daemon/elf/elf_file.h"
#include "daemon/symbolize/module_names.h"

namespace profd::symbolize {

// Names those of `names` of which only the bounds are known (kBounds), as far as they are virtual
// functions: `symbol` becomes "rocksdb::BlockBasedTable::vfn3", `source` kRtti. 3 is the number of
// the function in the table of the class. Reads nothing if all names are known.
void NameVirtualFunctions(const ElfFile& elf, std::span<FoundName> names);

// "~rocksdb::BlockBasedTable::vfn3".
std::string VirtualFunctionText(std::string_view path);

}  // namespace profd::symbolize

#endif  // PROFD_DAEMON_SYMBOLIZE_RTTI_NAMES_H_
