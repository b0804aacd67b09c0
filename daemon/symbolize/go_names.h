// Names from the table of functions in Go programs, which have it stripped, too.
#ifndef PROFD_DAEMON_SYMBOLIZE_GO_NAMES_H_
#define PROFD_DAEMON_SYMBOLIZE_GO_NAMES_H_

#include <optional>

#include "daemon/elf/elf_file.h"
#include "daemon/unwind/go_table.h"

namespace profd::symbolize {

// None if the file is no Go program. Reads from `elf`, which must outlive it.
std::optional<GoTable> OpenGoTable(const ElfFile& elf);

}  // namespace profd::symbolize

#endif  // PROFD_DAEMON_SYMBOLIZE_GO_NAMES_H_
