#include "daemon/symbolize/infer/module_inference.h"

#include <algorithm>
#include <string_view>

namespace profd::symbolize {
namespace {

constexpr size_t kMaxRemembered = 1 << 14;
constexpr size_t kMaxCallees = 8;

// The constants below were chosen with bench_infer on six programs (docs/accuracy.md).
constexpr double kOwnLocationsForFull = 3;
constexpr double kRegionWeight = 1;
constexpr double kCallersWeight = 1.2;        // without own locations
constexpr double kCallersBesideWeight = 0.5;  // beside own locations
constexpr double kCalleeWeight = 0.2;
constexpr double kLeastShare = 0.4;  // of the winner, among all crates
constexpr double kLeastScore = 0.5;  // the same, without own locations

// Whether a function may be one that waits on behalf of others. A primitive may be inlined in any
// function, but then its own locations name the function better.
bool MayBePrimitive(const InferredName& name) {
  return name.evidence == Evidence::kNeighbors || name.crate == "parking_lot" ||
         name.crate == "parking_lot_core" || name.path.starts_with("std::sys::");
}

}  // namespace

ModuleInference::ModuleInference(const ElfFile* elf, const LocationTable* locations,
                                 const CrateMap* map, std::span<const uint64_t> begins)
    : locations_(locations),
      map_(map),
      weights_(locations),
      channels_(locations),
      code_(elf, begins) {}

const Files& ModuleInference::FilesOf(size_t function) {
  if (const auto known = remembered_.find(function); known != remembered_.end()) {
    return known->second;
  }
  if (remembered_.size() >= kMaxRemembered) remembered_.clear();
  return remembered_[function] = CountFiles(code_.Code(function), code_.BeginOf(function),
                                            *locations_, [](uint64_t /*target*/) {});
}

bool ModuleInference::AddShares(const Files& files, double weight, Scores* scores) const {
  const double sum = weights_.Sum(files);
  if (sum == 0) return false;
  for (const FileCount& f : files) {
    if (const double own = weights_.Of(f); own > 0) {
      (*scores)[weights_.CrateOf(f)] += weight * own / sum;
    }
  }
  return true;
}

// A part of a function that was split off jumps back into it. So does the function into the part,
// but that is the smaller one.
size_t ModuleInference::OwnerOf(size_t function, std::span<const uint64_t> jumps) {
  std::optional<size_t> owner;
  for (const uint64_t jump : jumps) {
    const std::optional<size_t> target = code_.FunctionAt(jump);
    if (!target || *target == function || code_.BeginOf(*target) == jump) continue;
    if (owner && *owner != *target) return function;
    owner = target;
  }
  if (!owner || code_.Code(*owner).size() < code_.Code(function).size()) return function;
  return *owner;
}

InferredName ModuleInference::NameOf(const Files& files, uint32_t crate, Evidence evidence) const {
  const FileCount* best = nullptr;
  for (const FileCount& f : files) {
    if (weights_.CrateOf(f) == crate && (best == nullptr || f.count > best->count)) best = &f;
  }
  const std::string& name = locations_->crates()[crate];
  return {.path = best == nullptr ? name : locations_->files()[best->file].module,
          .crate = name,
          .evidence = evidence,
          .role = CodeRole::kUnknown};
}

std::optional<InferredName> ModuleInference::Infer(uint64_t address) {
  const std::optional<size_t> containing = code_.FunctionAt(address);
  if (!containing || locations_->record_count() == 0) return std::nullopt;
  size_t function = *containing;
  CodeReferences references = FindReferences(code_.Code(function), code_.BeginOf(function));
  if (const size_t owner = OwnerOf(function, references.jumps); owner != function) {
    function = owner;
    references = FindReferences(code_.Code(function), code_.BeginOf(function));
  }
  std::optional<InferredName> name = InferPath(function, references);
  if (!references.futex_wait || (name && !MayBePrimitive(*name))) {
    if (name && ChannelSides::IsChannel(name->path)) name->role = RoleInChannel(function);
    return name;
  }
  if (!name) {
    name = InferredName{
        .path = {}, .crate = {}, .evidence = Evidence::kCode, .role = CodeRole::kUnknown};
  }
  name->role = references.pauses ? CodeRole::kLockSlow : CodeRole::kFutexWait;
  return name;
}

CodeRole ModuleInference::RoleInChannel(size_t function) {
  std::vector<uint64_t> loads;
  ForEachReference(
      code_.Code(function), code_.BeginOf(function),
      [&](uint64_t target) { loads.push_back(target); }, [](uint64_t /*target*/) {});
  switch (channels_.Of(loads)) {
    case ChannelSide::kSends:
      return CodeRole::kSends;
    case ChannelSide::kReceives:
      return CodeRole::kReceives;
    case ChannelSide::kUnknown:
      break;
  }
  return CodeRole::kUnknown;
}

// Of a function that loads locations of the standard library only.
std::optional<InferredName> ModuleInference::OfStandard(const Files& files) const {
  const auto most =
      std::max_element(files.begin(), files.end(),
                       [](const FileCount& a, const FileCount& b) { return a.count < b.count; });
  if (most == files.end()) return std::nullopt;
  return NameOf(files, weights_.CrateOf(*most), Evidence::kStandard);
}

std::optional<InferredName> ModuleInference::InferPath(size_t function,
                                                       const CodeReferences& references) {
  const Files files = FilesOf(function);
  Scores scores;
  const double own_weight = std::min(1.0, weights_.Sum(files) / kOwnLocationsForFull);
  const bool own = AddShares(files, own_weight, &scores);
  std::optional<InferredName> standard;
  if (!own) standard = OfStandard(files);
  if (standard && !IsInlinedStandard(standard->path)) return standard;

  const auto add = [&](std::optional<uint32_t> crate, double weight) {
    if (crate && *crate < locations_->crates().size()) scores[*crate] += weight;
  };
  const std::optional<uint32_t> around = map_->Around(function);
  add(around, kRegionWeight * map_->weight());
  // Anybody calls the standard library.
  const bool library = around && *around < locations_->crates().size() && weights_.Of(*around) == 0;
  if (!library) add(map_->OfCallers(function), own ? kCallersBesideWeight : kCallersWeight);
  // Code of other languages may be called by, and call, whatever it likes.
  if (!own && !standard && !around) return std::nullopt;
  size_t callees = 0;
  for (const uint64_t call : references.calls) {
    if (callees == kMaxCallees) break;
    const std::optional<size_t> callee = code_.FunctionFrom(call);
    if (!callee || *callee == function) continue;
    ++callees;
    AddShares(FilesOf(*callee), kCalleeWeight / kMaxCallees, &scores);
  }

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
  if (best == scores.end() || best->second < kLeastShare * total) return standard;
  if (!own && best->second < kLeastScore) return standard;
  return NameOf(files, best->first, own ? Evidence::kLocations : Evidence::kNeighbors);
}

}  // namespace profd::symbolize
