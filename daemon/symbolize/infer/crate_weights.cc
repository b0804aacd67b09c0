#include "daemon/symbolize/infer/crate_weights.h"

#include <algorithm>
#include <iterator>

#include "daemon/symbolize/infer/code_references.h"

namespace profd::symbolize {
namespace {

constexpr size_t kMaxFunctionFiles = 32;  // per function

// Their code is instantiated or inlined in other crates all the time. Locations in the first count
// only if a function has no others.
constexpr std::string_view kStandard[] = {
    "alloc",      "backtrace", "core", "hashbrown",  "panic_unwind",
    "proc_macro", "std",       "test", "std_detect",
};
constexpr std::string_view kGeneric[] = {
    "arrayvec",      "bytes",     "crossbeam_utils", "either",      "erased_serde",
    "generic_array", "indexmap",  "itertools",       "lazy_static", "lock_api",
    "memchr",        "once_cell", "rustc_hash",      "serde",       "serde_core",
    "scoped_tls",    "slab",      "smallvec",        "tinyvec",     "winnow",
};
constexpr double kGenericWeight = 0.25;

constexpr std::string_view kInlined[] = {
    "alloc",
    "backtrace",
    "hashbrown",
    "std::sys::process",
    "std::sys::thread",
    "std::time",
    "std::thread::functions",
};

double WeightOf(std::string_view crate) {
  const auto is_in = [crate](const auto& list) {
    return std::find(std::begin(list), std::end(list), crate) != std::end(list);
  };
  return is_in(kStandard) ? 0 : is_in(kGeneric) ? kGenericWeight : 1;
}

}  // namespace

bool IsInlinedStandard(std::string_view module) {
  return std::any_of(std::begin(kInlined), std::end(kInlined), [&](std::string_view inlined) {
    if (!module.starts_with(inlined)) return false;
    return module.size() == inlined.size() || module.substr(inlined.size()).starts_with("::");
  });
}

Files CountFiles(std::span<const uint8_t> code, uint64_t address, const LocationTable& locations,
                 absl::FunctionRef<void(uint64_t target)> called) {
  std::vector<uint64_t> records;
  const auto loaded = [&](uint64_t target) {
    if (locations.FileAt(target)) records.push_back(target);
  };
  ForEachReference(code, address, loaded, called);
  std::sort(records.begin(), records.end());
  records.erase(std::unique(records.begin(), records.end()), records.end());
  Files files;
  for (const uint64_t record : records) {
    const uint32_t file = *locations.FileAt(record);
    const auto same = std::find_if(files.begin(), files.end(),
                                   [&](const FileCount& f) { return f.file == file; });
    if (same != files.end()) {
      ++same->count;
    } else if (files.size() < kMaxFunctionFiles) {
      files.push_back({file, 1});
    }
  }
  return files;
}

CrateWeights::CrateWeights(const LocationTable* locations) : locations_(locations) {
  for (const std::string& crate : locations->crates()) weights_.push_back(WeightOf(crate));
}

double CrateWeights::Sum(const Files& files) const {
  double sum = 0;
  for (const FileCount& f : files) sum += Of(f);
  return sum;
}

}  // namespace profd::symbolize
