// Any bytes given as a C++ program: functions are looked for in the tables of its classes within
// bounds.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <vector>

#include "daemon/base/fd.h"
#include "daemon/elf/elf_file.h"
#include "daemon/symbolize/infer/class_tables.h"
#include "daemon/symbolize/infer/function_begins.h"

using profd::symbolize::ClassTables;
using profd::symbolize::ElfFile;
using profd::symbolize::VirtualFunction;

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const profd::UniqueFd fd(memfd_create("fuzz_classes", MFD_CLOEXEC));
  Require(fd.ok());
  Require(write(fd.get(), data, size) == static_cast<ssize_t>(size));
  const auto elf = ElfFile::Open(fd.get());
  if (!elf.ok()) return 0;
  std::vector<uint64_t> begins = profd::symbolize::ReadFunctionBegins(*elf);
  // Inputs seldom describe their functions well enough: these are in some of them.
  for (uint64_t address = 0x1000; address < 0x1800; address += 16) begins.push_back(address);
  std::sort(begins.begin(), begins.end());
  begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
  const std::vector<std::optional<VirtualFunction>> found = ClassTables(&*elf).Find(begins);
  Require(found.size() == begins.size());
  for (const std::optional<VirtualFunction>& function : found) {
    if (!function) continue;
    Require(!function->type.empty() && function->type.size() < 1024 && function->number < 2048);
  }
  return 0;
}
