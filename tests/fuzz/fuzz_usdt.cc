// Any bytes given as the arguments of a probe, or as the file of a module, are read within their
// bounds, and what is found lies in the file.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "daemon/base/fd.h"
#include "daemon/heap/usdt.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

void CheckSpec(const profd_usdt_spec& spec, int count) {
  for (int i = 0; i < count; ++i) {
    const profd_usdt_argument& argument = spec.arguments[i];
    Require(argument.size == 1 || argument.size == 2 || argument.size == 4 || argument.size == 8);
    Require(argument.base < PROFD_PT_REGS_WORDS || argument.base == PROFD_USDT_NO_REGISTER);
    Require(argument.index < PROFD_PT_REGS_WORDS || argument.index == PROFD_USDT_NO_REGISTER);
    Require(argument.shift <= 3);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (int count = 1; count <= PROFD_USDT_ARGUMENTS; ++count) {
    const auto spec = profd::ParseUsdtArguments(text, count);
    if (spec.ok()) CheckSpec(*spec, count);
  }
  const profd::UniqueFd fd(memfd_create("fuzz_usdt", MFD_CLOEXEC));
  Require(fd.ok());
  Require(write(fd.get(), data, size) == static_cast<ssize_t>(size));
  const auto found = profd::FindOtelMemory(fd.get());
  if (!found.ok() || !found->has_value()) return 0;
  Require((*found)->alloc.empty() == (*found)->free.empty());
  Require(!(*found)->alloc.empty() || !(*found)->note.empty());
  for (const auto* places : {&(*found)->alloc, &(*found)->free}) {
    for (const profd::UsdtPlace& place : *places) {
      Require(place.offset < size && place.semaphore < size);
      CheckSpec(place.arguments, places == &(*found)->alloc ? 3 : 1);
    }
  }
  return 0;
}
