// Finds the libc functions that change an address space.
#ifndef PROFD_DAEMON_HEAP_MAP_CALLS_H_
#define PROFD_DAEMON_HEAP_MAP_CALLS_H_

#include <cstdint>
#include <vector>

#include "bpf/abi.h"
#include "daemon/base/status.h"

namespace profd {

struct MapCall {
  profd_map_call call = PROFD_MAP_MMAP;
  uint64_t offset = 0;   // file offset of the probe's instruction: probe_point.h
  bool stepped = false;  // the kernel does not emulate that instruction, so a probe costs more
};

// Examines the regular file behind `fd`. Empty if it is not a libc. A libc exports mmap, munmap,
// and brk or madvise; a program without a dynamic linker has them in its .symtab. Libraries that
// interpose on a libc define only some of them. Each address appears once.
//
// Errors: InvalidArgument if it is not an x86-64 ELF file, and read errors. The file may be
// malformed or sparse, or may be truncated while it is read.
absl::StatusOr<std::vector<MapCall>> FindMapCalls(int fd);

}  // namespace profd

#endif  // PROFD_DAEMON_HEAP_MAP_CALLS_H_
