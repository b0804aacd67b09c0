// Pages of profd's own program and libraries.
#ifndef PROFD_DAEMON_BASE_PROGRAM_PAGES_H_
#define PROFD_DAEMON_BASE_PROGRAM_PAGES_H_

#include <cstddef>

#include "daemon/base/status.h"

namespace profd {

// Has the kernel unmap the code and constants of this process: much of it runs only at the start or
// for rare queries. Whatever is used again is mapped again from the page cache. A page that was
// changed stays: it has a breakpoint. One that is put in at this moment may be lost. Any thread may
// run meanwhile. Returns how many bytes were
// unmapped. Errors: /proc/self/pagemap cannot be read.
absl::StatusOr<size_t> UnmapProgramPages();

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_PROGRAM_PAGES_H_
