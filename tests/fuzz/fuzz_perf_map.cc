// Any bytes given as a perf map name each address at most once, within the limits.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "daemon/base/fd.h"
#include "daemon/symbolize/perf_map.h"

using profd::symbolize::FindInPerfMap;
using profd::symbolize::PerfMapLimits;

namespace {

constexpr size_t kLongestName = 4096;

void Require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const profd::UniqueFd fd(memfd_create("fuzz_perf_map", MFD_CLOEXEC));
  Require(fd.ok());
  Require(write(fd.get(), data, size) == static_cast<ssize_t>(size));
  const std::vector<uint64_t> addresses = {0, 1, 0x1000, 0x7f0000001000, UINT64_MAX};
  for (const uint64_t most : {uint64_t{16}, uint64_t{size}, PerfMapLimits().max_bytes}) {
    const auto found = FindInPerfMap(fd.get(), addresses, {.max_bytes = most, .max_matches = 32});
    Require(found.ok());
    Require(found->names.size() == addresses.size());
    Require(found->bytes_read <= most && found->malformed <= size);
    for (const std::string& name : found->names) Require(name.size() <= kLongestName);
  }
  return 0;
}
