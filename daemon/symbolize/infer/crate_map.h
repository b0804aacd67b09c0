// What all code of a program says about the crate of each function.
#ifndef PROFD_DAEMON_SYMBOLIZE_INFER_CRATE_MAP_H_
#define PROFD_DAEMON_SYMBOLIZE_INFER_CRATE_MAP_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "daemon/elf/elf_file.h"
#include "daemon/symbolize/infer/locations.h"

namespace profd::symbolize {

// Crates are indexes into the crates of the table that the map was made with. Small: it can be
// kept, and holds for other tables of the same file.
class CrateMap {
 public:
  // Scans all code: about 4 ms for each MB. Meanwhile it takes 30 bytes for each function, and 16
  // MiB at most for regions: in large programs the crates with the fewest locations get none.
  static CrateMap Build(const ElfFile& elf, const LocationTable& locations,
                        std::span<const uint64_t> begins);

  // The crate that the code around the function was compiled from. None in code of other
  // languages.
  std::optional<uint32_t> Around(size_t function) const;
  // How much that says in this program, 0 ... 1.
  double weight() const { return weight_; }
  // The crate of all functions that call it; none if they disagree, or if nobody calls it.
  std::optional<uint32_t> OfCallers(size_t function) const;

  size_t MemoryBytes() const;

 private:
  static constexpr uint16_t kNone = UINT16_MAX;

  struct Region {
    uint32_t first;  // function
    uint16_t crate;
  };

  static double WeightOf(const CrateMap& map, const std::vector<uint16_t>& own);

  double weight_ = 0;
  std::vector<Region> regions_;  // by function
  std::vector<uint16_t> callers_;
};

}  // namespace profd::symbolize

#endif  // PROFD_DAEMON_SYMBOLIZE_INFER_CRATE_MAP_H_
