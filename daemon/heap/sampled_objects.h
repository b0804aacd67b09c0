// Finds the functions of jemalloc's own profiling that run for sampled objects, and its settings.
#ifndef PROFD_DAEMON_HEAP_SAMPLED_OBJECTS_H_
#define PROFD_DAEMON_HEAP_SAMPLED_OBJECTS_H_

#include <cstdint>
#include <string>

#include "daemon/elf/elf_file.h"
#include "daemon/heap/probe_point.h"

namespace profd {

struct SampledObjects {
  // "symbol", "debug file" or "shape"; empty if the functions were not found.
  std::string found_by;
  // Whether their arguments are those of 5.2 or those of 5.3 (enum profd_live_place).
  bool is_5_2 = false;
  // File offsets of the first instructions of prof_malloc_sample_object, which runs when a sampled
  // object is allocated, and of prof_free_sampled_object, which runs when it is freed.
  uint64_t born = 0;
  uint64_t gone = 0;
  ProbePoint born_point, gone_point;  // in them
  // Virtual addresses in the file, of `born` and of variables; 0 if not found.
  uint64_t born_address = 0;
  uint64_t opt_prof = 0;        // bool: profiling is on since the program started
  uint64_t prof_active = 0;     // bool: and is sampling now
  uint64_t lg_prof_sample = 0;  // size_t: log2 of the mean bytes between samples
  // Why the functions were not found and what would help; empty if they were found.
  std::string note;
};

// Searches `module`, an x86-64 file at `path` with jemalloc of this version ("5.3.0"; empty:
// unknown), and its debug file, like FindJemalloc. Names may have any prefix; each must be unique.
// Symbol tables may be wrong: the result is some code of the module, and nothing more is
// guaranteed.
SampledObjects FindSampledObjects(const symbolize::ElfFile& module, const std::string& path,
                                  const std::string& debug_root, const std::string& version);

}  // namespace profd

#endif  // PROFD_DAEMON_HEAP_SAMPLED_OBJECTS_H_
