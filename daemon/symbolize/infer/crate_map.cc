#include "daemon/symbolize/infer/crate_map.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <string_view>

#include "daemon/symbolize/infer/code_reader.h"
#include "daemon/symbolize/infer/crate_weights.h"
#include "daemon/symbolize/infer/regions.h"

namespace profd::symbolize {
namespace {

constexpr size_t kMaxRegionBytes = 16 << 20;
constexpr size_t kMaxStates = 1024;
constexpr uint64_t kMaxScanned = 512 << 20;

// The constants below were chosen with bench_infer on six programs (docs/accuracy.md).
constexpr float kEntry = 3;
// There is one region of each of these at most, or one for each unit of the library.
constexpr float kStandardEntry = 8;
constexpr float kSilent = 0.08F;  // a function without locations, for other languages
constexpr float kImpossible = -2;
// A location of the program's own crates cannot be in a crate from a registry.
constexpr float kDownstream = -3;

// The share of functions whose region has the crate of most of their locations.
constexpr double kLeastAgreement = 0.5;
constexpr double kFullAgreement = 0.7;

enum class Library { kCore, kAlloc, kStd };
constexpr std::array<std::string_view, 3> kLibrary = {"core", "alloc", "std"};
// How much a function whose locations are all in the standard library speaks for its region to be
// one of that: by the outermost library that it has locations of, and by the region.
constexpr float kLibraryScores[3][3] = {
    {0.55F, 0.4F, 0.4F},
    {kImpossible, 0.6F, 0.4F},
    {kImpossible, kImpossible, 0.6F},
};

using Origin = SourceFile::Origin;

bool IsOwn(Origin origin) { return origin == Origin::kWorkspace || origin == Origin::kUnknown; }

// Who calls a function, as far as it is known while the code is read: crates of callers that have
// locations themselves, and a range of callers that have none.
class Callers {
 public:
  static constexpr uint16_t kMixed = UINT16_MAX - 1;

  void Add(uint16_t crate) { crate_ = crate_ == kUnset || crate_ == crate ? crate : kMixed; }
  void AddSilent(uint32_t caller) {
    first_ = std::min(first_, caller);
    last_ = std::max(last_, caller);
  }
  bool has_silent() const { return first_ <= last_; }
  uint32_t first() const { return first_; }
  uint32_t last() const { return last_; }
  // kUnset, kMixed or a crate.
  uint16_t crate() const { return crate_; }
  static constexpr uint16_t kUnset = UINT16_MAX;

 private:
  uint32_t first_ = UINT32_MAX;
  uint32_t last_ = 0;
  uint16_t crate_ = kUnset;
};

// Goes through the code once.
class Scan {
 public:
  Scan(const ElfFile& elf, const LocationTable& locations, std::span<const uint64_t> begins)
      : locations_(locations),
        weights_(&locations),
        code_(&elf, begins),
        callers_(begins.size()),
        regions_(ChooseStates(begins.size()), begins.size()) {}

  void Run() {
    own_.reserve(code_.count());
    for (size_t function = 0; function < code_.count(); ++function) Visit(function);
  }

  // By state: its crate; kNone for other languages.
  uint16_t CrateOf(uint32_t state) const { return crates_[state]; }
  const Regions& regions() const { return regions_; }
  const std::vector<Callers>& callers() const { return callers_; }

  // By function: the crate of most of its own locations, or kNone.
  const std::vector<uint16_t>& own() const { return own_; }

  static constexpr uint16_t kNone = UINT16_MAX;

 private:
  // Returns what it costs to enter each.
  std::vector<float> ChooseStates(size_t functions) {
    const std::vector<std::string>& names = locations_.crates();
    std::vector<uint32_t> by_count(std::min<size_t>(names.size(), Callers::kMixed));
    std::iota(by_count.begin(), by_count.end(), 0);
    const std::vector<uint32_t> counts = locations_.RecordsOfCrates();
    std::stable_sort(by_count.begin(), by_count.end(),
                     [&](uint32_t a, uint32_t b) { return counts[a] > counts[b]; });
    states_.assign(names.size(), kNoState);
    is_own_.assign(names.size(), false);
    for (const LocatedFile& file : locations_.files()) {
      if (IsOwn(file.origin)) is_own_[file.crate] = true;
    }
    std::vector<float> entry = {kEntry};
    crates_ = {kNone};
    for (const uint32_t crate : by_count) {
      const auto library = std::find(kLibrary.begin(), kLibrary.end(), names[crate]);
      const bool is_library = library != kLibrary.end();
      if (weights_.Of(crate) == 0 && !is_library) continue;
      const size_t bytes = Regions::BytesPerFunction(crates_.size() + 1) * functions;
      if (crates_.size() == kMaxStates || bytes > kMaxRegionBytes) break;
      const auto state = static_cast<uint32_t>(crates_.size());
      states_[crate] = state;
      if (is_library) library_states_[static_cast<size_t>(library - kLibrary.begin())] = state;
      if (!is_library && !is_own_[crate]) registry_states_.push_back(state);
      crates_.push_back(static_cast<uint16_t>(crate));
      entry.push_back(is_library ? kStandardEntry : kEntry);
    }
    return entry;
  }

  void Visit(size_t function) {
    calls_.clear();
    const std::span<const uint8_t> code =
        bytes_left_ > 0 ? code_.Code(function) : std::span<const uint8_t>();
    bytes_left_ -= std::min<uint64_t>(code.size(), bytes_left_);
    const Files files = CountFiles(code, code_.BeginOf(function), locations_, [&](uint64_t target) {
      const std::optional<size_t> callee = code_.FunctionFrom(target);
      if (callee && *callee != function) calls_.push_back(static_cast<uint32_t>(*callee));
    });
    const double sum = weights_.Sum(files);
    const uint16_t own = sum > 0 ? MostOf(files) : kNone;
    own_.push_back(own);
    for (const uint32_t callee : calls_) {
      if (own != kNone) {
        callers_[callee].Add(own);
      } else {
        callers_[callee].AddSilent(static_cast<uint32_t>(function));
      }
    }
    regions_.Next();
    if (files.empty()) {
      regions_.Add(kForeign, kSilent);
    } else {
      regions_.Add(kForeign, kImpossible);
      if (sum > 0) {
        AddCrates(files, sum);
      } else {
        AddLibrary(files);
      }
    }
  }

  uint16_t MostOf(const Files& files) const {
    uint16_t best = kNone;
    double most = 0;
    for (const FileCount& f : files) {
      const uint32_t crate = weights_.CrateOf(f);
      double weight = 0;
      for (const FileCount& g : files) {
        if (weights_.CrateOf(g) == crate) weight += weights_.Of(g);
      }
      if (weight > most && crate < Callers::kMixed) {
        most = weight;
        best = static_cast<uint16_t>(crate);
      }
    }
    return best;
  }

  void AddCrates(const Files& files, double sum) {
    // One location says less than several.
    uint32_t count = 0;
    bool own = false;
    for (const FileCount& f : files) {
      if (weights_.Of(f) == 0) continue;
      count += f.count;
      own = own || IsOwn(locations_.files()[f.file].origin);
    }
    const double confidence = std::min(1.0, 0.5 + 0.25 * count);
    for (const FileCount& f : files) {
      const uint32_t state = states_[weights_.CrateOf(f)];
      if (weights_.Of(f) == 0 || state == kNoState) continue;
      regions_.Add(state, static_cast<float>(confidence * weights_.Of(f) / sum));
    }
    for (const uint32_t state : library_states_) {
      if (state != kNoState) regions_.Add(state, kImpossible);
    }
    if (!own) return;
    for (const uint32_t state : registry_states_) regions_.Add(state, kDownstream);
  }

  void AddLibrary(const Files& files) {
    auto outermost = Library::kCore;
    for (const FileCount& f : files) {
      const std::string& crate = locations_.crates()[weights_.CrateOf(f)];
      if (crate == "std") {
        outermost = Library::kStd;
      } else if (crate != "core" && outermost == Library::kCore) {
        outermost = Library::kAlloc;
      }
    }
    for (size_t region = 0; region < kLibrary.size(); ++region) {
      if (library_states_[region] == kNoState) continue;
      regions_.Add(library_states_[region], kLibraryScores[static_cast<size_t>(outermost)][region]);
    }
  }

  static constexpr uint32_t kForeign = 0;
  static constexpr uint32_t kNoState = UINT32_MAX;

  const LocationTable& locations_;
  const CrateWeights weights_;
  CodeReader code_;
  uint64_t bytes_left_ = kMaxScanned;
  std::vector<uint16_t> own_;
  std::vector<Callers> callers_;
  std::vector<uint32_t> calls_;   // of one function
  std::vector<uint16_t> crates_;  // by state
  std::vector<uint32_t> states_;  // by crate
  std::vector<bool> is_own_;      // the same: of the program itself
  std::vector<uint32_t> registry_states_;
  std::array<uint32_t, kLibrary.size()> library_states_ = {kNoState, kNoState, kNoState};
  Regions regions_;
};

}  // namespace

// Regions count as far as functions with locations confirm them: linkers and optimizers may have
// ordered functions by use.
double CrateMap::WeightOf(const CrateMap& map, const std::vector<uint16_t>& own) {
  size_t agree = 0;
  size_t all = 0;
  for (size_t function = 0; function < own.size(); ++function) {
    if (own[function] == kNone) continue;
    ++all;
    if (map.Around(function) == own[function]) ++agree;
  }
  if (all == 0) return 0;
  const double agreement = static_cast<double>(agree) / static_cast<double>(all);
  return std::clamp((agreement - kLeastAgreement) / (kFullAgreement - kLeastAgreement), 0.0, 1.0);
}

CrateMap CrateMap::Build(const ElfFile& elf, const LocationTable& locations,
                         std::span<const uint64_t> begins) {
  CrateMap map;
  Scan scan(elf, locations, begins);
  scan.Run();
  for (const Regions::Run& run : scan.regions().Trace()) {
    map.regions_.push_back({.first = run.first, .crate = scan.CrateOf(run.state)});
  }
  map.callers_.reserve(begins.size());
  for (const Callers& callers : scan.callers()) {
    uint16_t crate = callers.crate();
    if (callers.has_silent()) {
      // Those between the first and the last are mostly in the same region if both are.
      const auto one = map.Around(callers.first());
      const bool agree =
          one && one == map.Around(callers.last()) && (crate == Callers::kUnset || crate == *one);
      crate = agree ? static_cast<uint16_t>(*one) : Callers::kMixed;
    }
    map.callers_.push_back(crate == Callers::kMixed ? kNone : crate);
  }
  map.weight_ = WeightOf(map, scan.own());
  return map;
}

std::optional<uint32_t> CrateMap::Around(size_t function) const {
  const auto after =
      std::upper_bound(regions_.begin(), regions_.end(), function,
                       [](size_t value, const Region& region) { return value < region.first; });
  if (after == regions_.begin() || std::prev(after)->crate == kNone) return std::nullopt;
  return std::prev(after)->crate;
}

std::optional<uint32_t> CrateMap::OfCallers(size_t function) const {
  if (function >= callers_.size() || callers_[function] == kNone) return std::nullopt;
  return callers_[function];
}

size_t CrateMap::MemoryBytes() const {
  return regions_.capacity() * sizeof(Region) + callers_.capacity() * sizeof(uint16_t);
}

}  // namespace profd::symbolize
