// Any bytes given as a jitdump name each address at most once, within the limits.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "daemon/base/fd.h"
#include "daemon/symbolize/jit_dump.h"

using profd::symbolize::FindInJitDump;

namespace {

constexpr size_t kLongestName = 4096;
// What is read of one record in both passes, and of names.
constexpr uint64_t kMostPerRecord = 256;

void Require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const profd::UniqueFd fd(memfd_create("fuzz_jit_dump", MFD_CLOEXEC));
  Require(fd.ok());
  Require(write(fd.get(), data, size) == static_cast<ssize_t>(size));
  const std::vector<uint64_t> addresses = {0, 1, 0x1000, 0x7f0000001000, UINT64_MAX};
  for (const uint64_t most : {uint64_t{2}, uint64_t{1} << 20}) {
    const auto found = FindInJitDump(fd.get(), addresses, {.max_records = most, .max_matches = 32});
    if (!found.ok()) continue;
    Require(found->names.size() == addresses.size());
    Require(found->bytes_read <= kMostPerRecord * (most + 1) + addresses.size() * kLongestName);
    for (const std::string& name : found->names) {
      Require(name.size() <= kLongestName && name.find('\0') == std::string::npos);
    }
  }
  return 0;
}
