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
  uint64_t offset = 0;   // file offset of the probe's instruction: probe_point.h
  bool stepped = false;  // the kernel does not emulate that instruction, so a probe costs more
};

struct GlibcInfo {
  std::string version;                   // "2.36"; empty if the file does not say
  std::string found_by;                  // "symbol"
  std::vector<GlibcFunction> functions;  // by offset, each offset once
};

// Examines the regular file behind `fd`. Empty if the module defines no malloc and free, or they
// are not glibc's, which is recognised by a string in it. The names come from .dynsym, or from
// .symtab in a statically linked program. Errors: InvalidArgument if it is not an x86-64 ELF file,
// and read errors. The file may be malformed or sparse, or may be truncated while it is read.
absl::StatusOr<std::optional<GlibcInfo>> FindGlibc(int fd);

}  // namespace profd

#endif  // PROFD_DAEMON_HEAP_GLIBC_H_
