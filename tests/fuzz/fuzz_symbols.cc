// Any bytes given as the file of a module give a name for every offset, and a build-id or an error.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "daemon/base/fd.h"
#include "daemon/symbolize/symbolizer.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const profd::UniqueFd fd(memfd_create("fuzz_symbols", MFD_CLOEXEC));
  Require(fd.ok());
  Require(write(fd.get(), data, size) == static_cast<ssize_t>(size));

  const auto build_id = profd::ReadBuildId(fd.get());
  if (build_id.ok()) Require(build_id->size() % 2 == 0);

  profd::ModuleIdentity identity;
  identity.path = "/usr/lib/module.so";
  const std::vector<uint64_t> offsets = {0,      0x1000, 0x1004,     0x1200,
                                         0x1010, 0,      UINT64_MAX, uint64_t{1} << 32};
  const std::vector<profd::Symbol> symbols = profd::SymbolizeModule(fd.get(), identity, offsets);
  Require(symbols.size() == offsets.size());
  for (const profd::Symbol& symbol : symbols) Require(!symbol.function.empty());
  Require(symbols[0].function == symbols[5].function);
  return 0;
}
