// How much the locations of a crate say about the function that loads them.
#ifndef PROFD_DAEMON_SYMBOLIZE_INFER_CRATE_WEIGHTS_H_
#define PROFD_DAEMON_SYMBOLIZE_INFER_CRATE_WEIGHTS_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "daemon/symbolize/infer/locations.h"

namespace profd::symbolize {

// Whether a module of the standard library has generic code or small functions, which are
// instantiated or inlined in other crates: "alloc::raw_vec", "std::time".
bool IsInlinedStandard(std::string_view module);

struct FileCount {
  uint32_t file;
  uint32_t count;
};
// The source files of the locations that a function loads.
using Files = std::vector<FileCount>;

// Of a function's code. Each location counts once. Calls `called` with the begin of each function
// that it seems to call or jump to.
Files CountFiles(std::span<const uint8_t> code, uint64_t address, const LocationTable& locations,
                 absl::FunctionRef<void(uint64_t target)> called);

// By crate: what one of its locations counts. 0 for the standard library, whose locations count
// only if a function has no others; less than 1 for crates of generic containers.
class CrateWeights {
 public:
  explicit CrateWeights(const LocationTable* locations);

  double Of(uint32_t crate) const { return weights_[crate]; }
  double Of(const FileCount& count) const { return count.count * weights_[CrateOf(count)]; }
  uint32_t CrateOf(const FileCount& count) const { return locations_->files()[count.file].crate; }
  double Sum(const Files& files) const;

 private:
  const LocationTable* const locations_;
  std::vector<double> weights_;
};

}  // namespace profd::symbolize

#endif  // PROFD_DAEMON_SYMBOLIZE_INFER_CRATE_WEIGHTS_H_
