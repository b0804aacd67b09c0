// Keeps the crate maps of the programs that were asked for last.
#ifndef PROFD_DAEMON_SYMBOLIZE_INFER_CRATE_MAPS_H_
#define PROFD_DAEMON_SYMBOLIZE_INFER_CRATE_MAPS_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <span>

#include "daemon/elf/elf_file.h"
#include "daemon/symbolize/infer/crate_map.h"
#include "daemon/symbolize/infer/locations.h"

namespace profd::symbolize {

// Programs are identified by the addresses of their functions and by their crates. At most 4 MiB.
// Not thread-safe.
class CrateMaps {
 public:
  std::shared_ptr<const CrateMap> Of(const ElfFile& elf, const LocationTable& locations,
                                     std::span<const uint64_t> begins);

 private:
  struct Entry {
    size_t key;
    std::shared_ptr<const CrateMap> map;
  };

  std::list<Entry> entries_;  // the last used one first
};

}  // namespace profd::symbolize

#endif  // PROFD_DAEMON_SYMBOLIZE_INFER_CRATE_MAPS_H_
