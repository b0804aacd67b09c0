// Finds the functions of a libc by which a program changes its address space.
#ifndef PROFD_DAEMON_HEAP_MAP_CALLS_H_
#define PROFD_DAEMON_HEAP_MAP_CALLS_H_

#include <cstdint>
#include <vector>

#include "bpf/abi.h"
#include "daemon/base/status.h"

namespace profd {

struct MapCall {
  profd_map_call call = PROFD_MAP_MMAP;
  uint64_t offset = 0;   // in the file, of the instruction for a probe: probe_point.h
  bool stepped = false;  // the kernel does not emulate that instruction: a probe there costs more
};

// Looks into the regular file behind `fd`. Empty when it is no libc: that defines mmap, munmap, and
// brk or madvise, for others to call; a program without a dynamic linker has them in its .symtab.
// Libraries that put themselves between a program and its libc define a part of them only. One call
// an address.
//
// Errors: InvalidArgument for what is not an x86-64 ELF file, and what reading gives. The file may
// lie, be sparse, or be cut short while it is read.
absl::StatusOr<std::vector<MapCall>> FindMapCalls(int fd);

}  // namespace profd

#endif  // PROFD_DAEMON_HEAP_MAP_CALLS_H_
