// Finds where jemalloc's own profiling tells of the objects that it samples, and where its settings
// lie.
#ifndef PROFD_DAEMON_HEAP_SAMPLED_OBJECTS_H_
#define PROFD_DAEMON_HEAP_SAMPLED_OBJECTS_H_

#include <cstdint>
#include <string>

#include "daemon/heap/probe_point.h"
#include "daemon/symbolize/elf_file.h"

namespace profd {

struct SampledObjects {
  // "symbol", "debug file" or "shape"; empty when the functions were not found.
  std::string found_by;
  // Whether their arguments are those of 5.2 or those of 5.3 (enum profd_live_place).
  bool is_5_2 = false;
  // File offsets of the first instructions of prof_malloc_sample_object, which runs when a sampled
  // object came to life, and of prof_free_sampled_object, which runs when it is gone.
  uint64_t born = 0;
  uint64_t gone = 0;
  ProbePoint born_point, gone_point;  // in them
  // Virtual addresses as the file has them: of `born`, and of variables; 0 for one not found.
  uint64_t born_address = 0;
  uint64_t opt_prof = 0;        // bool: profiling is on since the program began
  uint64_t prof_active = 0;     // bool: and samples at present
  uint64_t lg_prof_sample = 0;  // size_t: log2 of the mean bytes from one sample to the next
  // Why the functions were not found and what would bring them; empty when they were.
  std::string note;
};

// Looks into `module`, an x86-64 file at `path` that holds jemalloc of this version ("5.3.0";
// empty: it does not say), and into its debug file, as FindJemalloc does. Names may have any
// prefix; each must name one place only. Tables may lie: what is found is code of the module, no
// more is known.
SampledObjects FindSampledObjects(const symbolize::ElfFile& module, const std::string& path,
                                  const std::string& debug_root, const std::string& version);

}  // namespace profd

#endif  // PROFD_DAEMON_HEAP_SAMPLED_OBJECTS_H_
