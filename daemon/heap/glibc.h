// Finds glibc's malloc in a module.
#ifndef PROFD_DAEMON_HEAP_GLIBC_H_
#define PROFD_DAEMON_HEAP_GLIBC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bpf/abi.h"
#include "daemon/base/status.h"

namespace profd {

// A function that allocates or frees.
struct GlibcFunction {
  profd_malloc_place place = PROFD_MALLOC_MALLOC;
  uint64_t offset = 0;   // in the file, of the instruction for a probe: probe_point.h
  bool stepped = false;  // the kernel does not emulate that instruction: a probe there costs more
};

struct GlibcInfo {
  std::string version;                   // "2.36"; empty when the file does not say
  std::string found_by;                  // "symbol"
  std::vector<GlibcFunction> functions;  // by offset, each offset once
};

// Looks into the regular file behind `fd`. Empty when the module defines no malloc and free, or
// they are not glibc's, which is known by a text of its own. The names come from .dynsym; of a
// program that is linked statically from .symtab. Errors: InvalidArgument for what is not an x86-64
// ELF file, and what reading gives. The file may lie, be sparse, or be cut short while it is read.
absl::StatusOr<std::optional<GlibcInfo>> FindGlibc(int fd);

}  // namespace profd

#endif  // PROFD_DAEMON_HEAP_GLIBC_H_
