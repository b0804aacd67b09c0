// Any bytes given as a Rust program: its panic locations are found and functions are inferred
// within bounds, and names are made of identifiers.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "daemon/base/fd.h"
#include "daemon/symbolize/infer/code_references.h"
#include "daemon/symbolize/infer/crate_map.h"
#include "daemon/symbolize/infer/function_begins.h"
#include "daemon/symbolize/infer/locations.h"
#include "daemon/symbolize/infer/module_inference.h"

using profd::symbolize::CrateMap;
using profd::symbolize::ElfFile;
using profd::symbolize::InferredName;
using profd::symbolize::LocatedFile;
using profd::symbolize::LocationTable;
using profd::symbolize::ModuleInference;

namespace {

// An input of 64 KiB may describe any number of functions.
constexpr size_t kInferred = 16;

void Require(bool condition) {
  if (!condition) std::abort();
}

bool IsPath(const std::string& path) {
  return std::all_of(path.begin(), path.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == ':';
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto ignore = [](uint64_t /*target*/) {};
  profd::symbolize::ForEachReference({data, size}, 0, ignore, ignore);

  const profd::UniqueFd fd(memfd_create("fuzz_locations", MFD_CLOEXEC));
  Require(fd.ok());
  Require(write(fd.get(), data, size) == static_cast<ssize_t>(size));
  const auto elf = ElfFile::Open(fd.get());
  if (!elf.ok()) return 0;
  const LocationTable locations = LocationTable::Read(*elf, "own");
  for (const LocatedFile& file : locations.files()) {
    Require(file.crate < locations.crates().size());
    Require(IsPath(file.module));
  }
  const std::vector<uint64_t> begins = profd::symbolize::ReadFunctionBegins(*elf);
  Require(std::is_sorted(begins.begin(), begins.end()));
  const CrateMap map = CrateMap::Build(*elf, locations, begins);
  ModuleInference inference(&*elf, &locations, &map, begins);
  for (size_t i = 0; i < std::min(begins.size(), kInferred); ++i) {
    const std::optional<InferredName> name = inference.Infer(begins[i]);
    if (name) Require(IsPath(name->path) && name->path.starts_with(name->crate));
  }
  return 0;
}
