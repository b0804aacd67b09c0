#include "daemon/heap/sampled_objects.h"

#include <optional>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/heap/functions.h"
#include "daemon/heap/named_symbols.h"
#include "daemon/heap/object_shape.h"
#include "daemon/symbolize/debug_file.h"
#include "daemon/symbolize/elf_symbols.h"
#include "re2/re2.h"

namespace profd {
namespace {

using symbolize::ElfFile;
using symbolize::FileRange;

constexpr char kBornFunction[] = "prof_malloc_sample_object";
constexpr char kGoneFunction[] = "prof_free_sampled_object";
// In builds without profiling these functions are empty, with a few bytes each.
constexpr uint64_t kLeastFunctionBytes = 32;

constexpr char kNotKnown[] = "the live heap is unknown: ";
constexpr char kRemedy[] =
    "; build jemalloc with profiling, and keep the module's symbols or install its debug file";

// 0 if there is none or more than one.
uint64_t VariableAt(const ElfFile& symbols, const std::string& name) {
  const std::vector<uint64_t> addresses =
      AddressesOf(symbolize::FindVariables(symbols, name, kMaxNamed), name, 1);
  return addresses.size() == 1 ? addresses.front() : 0;
}

std::vector<uint64_t> FunctionsAt(const ElfFile& symbols, const std::string& name) {
  return AddressesOf(symbolize::FindFunctions(symbols, name, kMaxNamed), name, kLeastFunctionBytes);
}

// Fills in what `symbols` says about `module`. False if it does not name both functions.
bool FindByName(const ElfFile& symbols, const ElfFile& module, const std::string& found_by,
                SampledObjects& objects) {
  const std::vector<uint64_t> born = FunctionsAt(symbols, kBornFunction);
  const std::vector<uint64_t> gone = FunctionsAt(symbols, kGoneFunction);
  if (born.empty() || gone.empty()) return false;
  if (born.size() > 1 || gone.size() > 1) {
    objects.note = absl::StrCat(kNotKnown, "several functions are named ", kBornFunction, " (by ",
                                found_by, "); link only one jemalloc");
    return true;
  }
  const std::optional<FileRange> born_code = module.CodeAt(born.front());
  const std::optional<FileRange> gone_code = module.CodeAt(gone.front());
  if (!born_code || !gone_code) {
    objects.note = absl::StrCat(kNotKnown, kBornFunction, " (by ", found_by, ") is not code");
    return true;
  }
  objects.found_by = found_by;
  objects.born = born_code->offset;
  objects.gone = gone_code->offset;
  objects.born_address = born.front();
  objects.opt_prof = VariableAt(symbols, "opt_prof");
  objects.prof_active = VariableAt(symbols, objects.is_5_2 ? "prof_active" : "prof_active_state");
  objects.lg_prof_sample = VariableAt(symbols, "lg_prof_sample");
  return true;
}

// For a module without symbols.
void FindObjectsByShape(const ElfFile& module, SampledObjects& objects) {
  std::vector<uint64_t> born, gone;
  const absl::Status visited = VisitFunctions(
      module, kObjectShapeBytes, [&](const FileRange& function, std::span<const uint8_t> code) {
        const ObjectShape shape = ShapeOfObjectFunction(code);
        if (shape == ObjectShape::kBorn) born.push_back(function.offset);
        if (shape == ObjectShape::kGone) gone.push_back(function.offset);
      });
  if (!visited.ok()) {
    objects.note = absl::StrCat(kNotKnown, visited.message(), kRemedy);
    return;
  }
  if (born.size() != 1 || gone.size() != 1) {
    const bool none = born.empty() || gone.empty();
    objects.note = absl::StrCat(kNotKnown, none ? "no function matches" : "several functions match",
                                " those for sampled objects", kRemedy);
    return;
  }
  objects.found_by = "shape";
  objects.born = born.front();
  objects.gone = gone.front();
  objects.born_address = module.VaddrOfOffset(objects.born).value_or(0);
}

// If these fail, the probes are on the first instructions.
void FindPoints(const ElfFile& module, SampledObjects& objects) {
  objects.born_point =
      FindProbePoint(module, {objects.born, kLeastFunctionBytes}).value_or(ProbePoint{});
  objects.gone_point =
      FindProbePoint(module, {objects.gone, kLeastFunctionBytes}).value_or(ProbePoint{});
}

// Everything but the probe points.
SampledObjects Locate(const ElfFile& module, const std::string& path, const std::string& debug_root,
                      const std::string& version) {
  static const RE2* const pattern = new RE2(R"(5\.([23])\..*)");
  SampledObjects objects;
  int minor = 0;
  if (version.empty()) {
    objects.note = absl::StrCat(kNotKnown, "the file does not say which jemalloc it holds");
    return objects;
  }
  if (!RE2::FullMatch(version, *pattern, &minor)) {
    objects.note = absl::StrCat(kNotKnown, "it needs jemalloc 5.2 or 5.3, this is ", version);
    return objects;
  }
  objects.is_5_2 = minor == 2;
  if (FindByName(module, module, "symbol", objects)) return objects;
  const auto debug = symbolize::OpenDebugFile(module, module.BuildId(), path, debug_root);
  if (debug && FindByName(debug->elf, module, "debug file", objects)) return objects;
  if (objects.is_5_2) {
    objects.note =
        absl::StrCat(kNotKnown, "no symbol names the functions for sampled objects", kRemedy);
  } else {
    FindObjectsByShape(module, objects);
  }
  return objects;
}

}  // namespace

SampledObjects FindSampledObjects(const ElfFile& module, const std::string& path,
                                  const std::string& debug_root, const std::string& version) {
  SampledObjects objects = Locate(module, path, debug_root, version);
  if (!objects.found_by.empty()) FindPoints(module, objects);
  return objects;
}

}  // namespace profd
