#include "daemon/symbolize/infer/module_inference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string_view>

namespace profd::symbolize {
namespace {

// Longer functions are machine-made tables, or lies.
constexpr uint64_t kMaxCode = 256 << 10;
constexpr size_t kMaxFunctionFiles = 32;  // per function
constexpr size_t kMaxRemembered = 1 << 14;
constexpr size_t kMaxCallees = 8;

// The constants below were chosen with tests/bench/infer on five programs (docs/accuracy.md).
constexpr size_t kNeighborsPerSide = 16;
constexpr double kNeighborDecay = 3;  // functions
constexpr double kOwnLocationsForFull = 3;
constexpr double kLeastNeighborMass = 0.15;
constexpr double kFullNeighborMass = 0.3;
constexpr double kCalleeWeight = 0.3;
constexpr double kLeastShare = 0.4;          // of the winner, among all crates
constexpr double kLeastNeighborShare = 0.7;  // of the winner, without own locations

// Their code is instantiated or inlined in other crates all the time. Locations in the first count
// only if a function has no others.
constexpr std::string_view kStandard[] = {
    "alloc", "backtrace", "core", "hashbrown", "panic_unwind", "proc_macro", "std", "test",
};
constexpr std::string_view kGeneric[] = {
    "arrayvec",      "bytes",     "crossbeam_utils", "either",      "erased_serde",
    "generic_array", "indexmap",  "itertools",       "lazy_static", "lock_api",
    "memchr",        "once_cell", "rustc_hash",      "serde",       "serde_core",
    "scoped_tls",    "slab",      "smallvec",        "tinyvec",     "winnow",
};
constexpr double kGenericWeight = 0.25;

double WeightOf(std::string_view crate) {
  const auto is_in = [crate](const auto& list) {
    return std::find(std::begin(list), std::end(list), crate) != std::end(list);
  };
  return is_in(kStandard) ? 0 : is_in(kGeneric) ? kGenericWeight : 1;
}

// Whether a function may be one that waits on behalf of others. A primitive may be inlined in any
// function, but then its own locations name the function better.
bool MayBePrimitive(const InferredName& name) {
  return name.evidence == Evidence::kNeighbors || name.crate == "parking_lot" ||
         name.crate == "parking_lot_core" || name.path.starts_with("std::sys::");
}

}  // namespace

ModuleInference::ModuleInference(const ElfFile* elf, const LocationTable* locations,
                                 std::span<const uint64_t> begins)
    : elf_(elf), locations_(locations), begins_(begins) {
  for (const std::string& crate : locations->crates()) weights_.push_back(WeightOf(crate));
}

uint64_t ModuleInference::SizeOf(size_t function) const {
  if (function + 1 == begins_.size()) return kMaxCode;
  return std::min(begins_[function + 1] - begins_[function], kMaxCode);
}

std::span<const uint8_t> ModuleInference::Code(size_t function) {
  const std::optional<FileRange> file = elf_->CodeAt(begins_[function]);
  if (!file) return {};
  code_.resize(static_cast<size_t>(std::min(file->size, SizeOf(function))));
  if (!elf_->Read(file->offset, code_.data(), code_.size()).ok()) return {};
  return code_;
}

std::optional<size_t> ModuleInference::FunctionAt(uint64_t address) const {
  const auto after = std::upper_bound(begins_.begin(), begins_.end(), address);
  if (after == begins_.begin()) return std::nullopt;
  const auto function = static_cast<size_t>(after - begins_.begin() - 1);
  return address - begins_[function] < SizeOf(function) ? std::optional(function) : std::nullopt;
}

const ModuleInference::Files& ModuleInference::FilesOf(size_t function) {
  if (const auto known = remembered_.find(function); known != remembered_.end()) {
    return known->second;
  }
  if (remembered_.size() >= kMaxRemembered) remembered_.clear();
  Files& files = remembered_[function];
  std::vector<uint64_t> records;
  const uint64_t address = begins_[function];
  ForEachDataLoad(Code(function), address, [&](uint64_t target) {
    if (locations_->FileAt(target)) records.push_back(target);
  });
  std::sort(records.begin(), records.end());
  records.erase(std::unique(records.begin(), records.end()), records.end());
  for (const uint64_t record : records) {
    const uint32_t file = *locations_->FileAt(record);
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

bool ModuleInference::AddShares(size_t function, double weight, Scores* scores) {
  const Files& files = FilesOf(function);
  double total = 0;
  for (const FileCount& f : files) {
    total += f.count * weights_[locations_->files()[f.file].crate];
  }
  if (total == 0) return false;
  for (const FileCount& f : files) {
    const uint32_t crate = locations_->files()[f.file].crate;
    if (weights_[crate] > 0) (*scores)[crate] += weight * f.count * weights_[crate] / total;
  }
  return true;
}

// Returns the share of the neighbors, by weight, that say something.
double ModuleInference::AddNeighbors(size_t function, Scores* scores) {
  Scores around;
  double mass = 0;
  double possible = 0;
  for (size_t distance = 1; distance <= kNeighborsPerSide; ++distance) {
    const double weight = std::exp(-static_cast<double>(distance) / kNeighborDecay);
    possible += 2 * weight;
    if (distance <= function && AddShares(function - distance, weight, &around)) mass += weight;
    if (distance < begins_.size() - function && AddShares(function + distance, weight, &around)) {
      mass += weight;
    }
  }
  const double share = mass / possible;
  if (mass == 0) return 0;
  for (const auto& [crate, weight] : around) {
    (*scores)[crate] += weight / mass * std::min(1.0, share / kFullNeighborMass);
  }
  return share;
}

// A part of a function that was split off jumps back into it.
size_t ModuleInference::OwnerOf(size_t function, std::span<const uint64_t> jumps) const {
  std::optional<size_t> owner;
  for (const uint64_t jump : jumps) {
    const std::optional<size_t> target = FunctionAt(jump);
    if (!target || *target == function || begins_[*target] == jump) continue;
    if (owner && *owner != *target) return function;
    owner = target;
  }
  return owner.value_or(function);
}

std::string ModuleInference::ModuleOf(const Files& files, uint32_t crate) const {
  const FileCount* best = nullptr;
  for (const FileCount& f : files) {
    if (locations_->files()[f.file].crate != crate) continue;
    if (best == nullptr || f.count > best->count) best = &f;
  }
  return best == nullptr ? locations_->crates()[crate] : locations_->files()[best->file].module;
}

std::optional<InferredName> ModuleInference::Infer(uint64_t address) {
  const std::optional<size_t> containing = FunctionAt(address);
  if (!containing || locations_->record_count() == 0) return std::nullopt;
  size_t function = *containing;
  CodeReferences references = FindReferences(Code(function), begins_[function]);
  if (const size_t owner = OwnerOf(function, references.jumps); owner != function) {
    function = owner;
    references = FindReferences(Code(function), begins_[function]);
  }
  std::optional<InferredName> name = InferPath(function, references);
  if (!references.futex_wait || (name && !MayBePrimitive(*name))) return name;
  // What the neighbors tell is not worth more than what the code does.
  if (!name || name->evidence == Evidence::kNeighbors) {
    name = InferredName{
        .path = {}, .crate = {}, .evidence = Evidence::kCode, .role = CodeRole::kUnknown};
  }
  name->role = references.pauses ? CodeRole::kLockSlow : CodeRole::kFutexWait;
  return name;
}

std::optional<InferredName> ModuleInference::InferPath(size_t function,
                                                       const CodeReferences& references) {
  Scores scores;
  const Files files = FilesOf(function);
  double own_count = 0;
  for (const FileCount& f : files) {
    own_count += f.count * weights_[locations_->files()[f.file].crate];
  }
  const double own_weight = std::min(1.0, own_count / kOwnLocationsForFull);
  const bool own = AddShares(function, own_weight, &scores);
  const double mass = AddNeighbors(function, &scores);
  size_t callees = 0;
  for (const uint64_t call : references.calls) {
    if (callees == kMaxCallees) break;
    const std::optional<size_t> callee = FunctionAt(call);
    if (!callee || *callee == function || begins_[*callee] != call) continue;
    ++callees;
    AddShares(*callee, kCalleeWeight / kMaxCallees, &scores);
  }

  const auto name = [&](uint32_t crate, Evidence evidence) {
    return InferredName{ModuleOf(files, crate), locations_->crates()[crate], evidence,
                        CodeRole::kUnknown};
  };
  double total = 0;
  auto best = scores.end();
  for (auto at = scores.begin(); at != scores.end(); ++at) {
    total += at->second;
    // The order of a hash table must not decide.
    if (best == scores.end() || at->second > best->second ||
        (at->second == best->second && at->first < best->first)) {
      best = at;
    }
  }
  const bool enough = own || mass >= kLeastNeighborMass;
  const double least = own ? kLeastShare : kLeastNeighborShare;
  if (enough && best != scores.end() && best->second >= least * total) {
    return name(best->first, own ? Evidence::kLocations : Evidence::kNeighbors);
  }
  if (own || files.empty()) return std::nullopt;
  const auto most =
      std::max_element(files.begin(), files.end(),
                       [](const FileCount& a, const FileCount& b) { return a.count < b.count; });
  return name(locations_->files()[most->file].crate, Evidence::kStandard);
}

}  // namespace profd::symbolize
