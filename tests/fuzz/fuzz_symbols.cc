// Any bytes given as the file of a module give a name for every offset, and a build-id or an error.
// The same bytes are its debug file, too.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

#include "daemon/base/fd.h"
#include "daemon/symbolize/debug_search.h"
#include "daemon/symbolize/symbolizer.h"

namespace {

constexpr uint64_t kSeedCode = 0x800;
constexpr uint64_t kSeedStep = 0x28;

void Require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const profd::UniqueFd fd(memfd_create("fuzz_symbols", MFD_CLOEXEC));
  Require(fd.ok());
  Require(write(fd.get(), data, size) == static_cast<ssize_t>(size));

  const auto found = profd::ReadIdentity(fd.get(), "module.so");
  if (found.ok()) {
    Require(found->build_id.size() % 2 == 0);
    Require(found->build_id.empty() || found->headers_id.empty());
  }

  profd::ModuleIdentity identity;
  identity.path = "/usr/lib/module.so";
  std::vector<uint64_t> offsets = {0,      0x1000, 0x1004,     0x1200,
                                   0x1010, 0,      UINT64_MAX, uint64_t{1} << 32};
  // Where the code of the seeds is.
  for (uint64_t offset = 0; offset < kSeedCode; offset += kSeedStep) offsets.push_back(offset);
  const std::vector<profd::Symbol> symbols = profd::SymbolizeModule(fd.get(), identity, offsets);
  Require(symbols.size() == offsets.size());
  for (const profd::Symbol& symbol : symbols) Require(!symbol.function.empty());
  Require(symbols[0].function == symbols[5].function);

  auto elf = profd::symbolize::ElfFile::Open(fd.get());
  if (!elf.ok()) return 0;
  Require(!profd::symbolize::SearchDebugFile(*elf, identity.path, {.own_root = "/nonexistent"}));
  profd::UniqueFd copy(dup(fd.get()));
  const profd::symbolize::DebugFile debug = {.fd = std::move(copy), .elf = *std::move(elf)};
  Require(profd::SymbolizeModule(fd.get(), identity, offsets, &debug).size() == offsets.size());
  return 0;
}
