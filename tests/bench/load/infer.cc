// How right inferred names are: hides the symbols of Rust programs, infers crate and module of each
// function, and compares with the symbols.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/fd.h"
#include "daemon/symbolize/elf_symbols.h"
#include "daemon/symbolize/function_path.h"
#include "daemon/symbolize/infer/crate_map.h"
#include "daemon/symbolize/infer/function_begins.h"
#include "daemon/symbolize/infer/locations.h"
#include "daemon/symbolize/infer/module_inference.h"
#include "daemon/symbolize/infer/source_path.h"
#include "daemon/symbolize/symbolizer.h"

namespace {

using profd::symbolize::CodeRole;
using profd::symbolize::CrateMap;
using profd::symbolize::ElfFile;
using profd::symbolize::Evidence;
using profd::symbolize::InferredName;
using profd::symbolize::LocationTable;
using profd::symbolize::ModuleInference;

struct Truth {
  bool rust = false;
  std::string crate;
  std::string module;
  std::string mangled;
};

bool IsLowerCase(std::string_view segment) {
  return !segment.empty() &&
         (absl::ascii_islower(static_cast<unsigned char>(segment[0])) || segment[0] == '_');
}

bool IsRust(std::string_view mangled) {
  if (mangled.starts_with("_R")) return true;
  const size_t hash = mangled.rfind("17h");
  return mangled.starts_with("_ZN") && hash != std::string_view::npos &&
         mangled.substr(hash + 3, 17).size() == 17 && mangled.substr(hash + 19, 1) == "E";
}

// Modules are all that comes before a type or the function itself.
Truth TruthOf(const std::string& mangled) {
  Truth truth;
  truth.rust = IsRust(mangled);
  truth.mangled = mangled;
  if (!truth.rust) return truth;
  std::string name = profd::Demangle(mangled);
  // References, and implementations for types without a path: the trait has one.
  if (name.starts_with("_<")) name.erase(0, 1);
  std::string path = profd::FunctionPath(name);
  while (!path.empty() && (path[0] == '&' || path[0] == '*')) path.erase(0, 1);
  for (const char* prefix : {"mut ", "const ", "dyn "}) {
    if (path.starts_with(prefix)) path.erase(0, std::string_view(prefix).size());
  }
  if (absl::StrContains(path, ' ') || path.starts_with("[") || path.starts_with("::") ||
      !absl::StrContains(path, "::")) {
    const size_t as = name.find(" as ");
    if (as != std::string::npos) path = profd::FunctionPath(name.substr(as + 4));
  }
  const std::vector<std::string_view> segments = profd::symbolize::SplitText(path, "::");
  for (size_t i = 0; i + 1 < segments.size() && IsLowerCase(segments[i]); ++i) {
    absl::StrAppend(&truth.module, i == 0 ? "" : "::", std::string(segments[i]));
    if (i == 0) truth.crate = segments[i];
  }
  return truth;
}

// Whether the function was defined in the crate, or for it: its name is in the symbol.
bool Mentions(const Truth& truth, const std::string& crate) {
  return truth.crate == crate ||
         absl::StrContains(truth.mangled, absl::StrCat(crate.size(), crate)) ||
         absl::StrContains(truth.mangled, absl::StrCat(crate.size(), "_", crate));
}

// Whether one module contains the other.
bool Related(const std::string& a, const std::string& b) {
  return a == b || a.starts_with(b + "::") || b.starts_with(a + "::");
}

// Bytes of code.
struct Sums {
  uint64_t named = 0;
  uint64_t crate = 0;      // the crate that defines the function
  uint64_t mentioned = 0;  // or one that its symbol mentions
  uint64_t with_module = 0;
  uint64_t module = 0;
  uint64_t related = 0;

  void Add(const Truth& truth, const InferredName& name, uint64_t size) {
    named += size;
    if (truth.crate == name.crate) crate += size;
    if (Mentions(truth, name.crate)) mentioned += size;
    if (name.path == name.crate && truth.module != truth.crate) return;
    with_module += size;
    if (truth.module == name.path) module += size;
    if (Related(truth.module, name.path)) related += size;
  }
};

const char* WordOf(CodeRole role) {
  switch (role) {
    case CodeRole::kUnknown:
      return "";
    case CodeRole::kFutexWait:
      return "futex_wait";
    case CodeRole::kLockSlow:
      return "lock_slow";
    case CodeRole::kSends:
      return "send";
    case CodeRole::kReceives:
      return "recv";
  }
  return "";
}

double Percent(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

void PrintRow(const std::string& program, const char* evidence, const Sums& sums, uint64_t rust) {
  if (std::string_view(evidence) == "neighbors") {  // they tell no module
    std::printf("| %s | %s | %.1f %% | %.1f %% | %.1f %% | | |\n", program.c_str(), evidence,
                Percent(sums.named, rust), Percent(sums.crate, sums.named),
                Percent(sums.mentioned, sums.named));
    return;
  }
  std::printf("| %s | %s | %.1f %% | %.1f %% | %.1f %% | %.1f %% | %.1f %% |\n", program.c_str(),
              evidence, Percent(sums.named, rust), Percent(sums.crate, sums.named),
              Percent(sums.mentioned, sums.named), Percent(sums.module, sums.with_module),
              Percent(sums.related, sums.with_module));
}

// A line for each function: its address, crate, module and symbol, with tabs between; without crate
// if it is not Rust.
absl::Status PrintTruth(const std::string& path) {
  ASSIGN_OR_RETURN(const profd::UniqueFd fd, profd::OpenReadOnly(path));
  ASSIGN_OR_RETURN(const ElfFile elf, ElfFile::Open(fd.get()));
  const std::vector<uint64_t> begins = profd::symbolize::ReadFunctionBegins(elf);
  profd::symbolize::SymbolLookup lookup(begins);
  if (!lookup.AddTables(elf)) return absl::FailedPreconditionError("it has no symbols");
  const std::vector<profd::symbolize::CoveringSymbol> symbols = lookup.Find();
  for (size_t i = 0; i < begins.size(); ++i) {
    const Truth truth = TruthOf(symbols[i].name);
    std::printf("%lx\t%s\t%s\t%s\n", begins[i], truth.crate.c_str(), truth.module.c_str(),
                truth.mangled.c_str());
  }
  return absl::OkStatus();
}

absl::Status Measure(const std::string& path, size_t show, bool roles) {
  ASSIGN_OR_RETURN(const profd::UniqueFd fd, profd::OpenReadOnly(path));
  ASSIGN_OR_RETURN(const ElfFile elf, ElfFile::Open(fd.get()));
  const std::vector<uint64_t> begins = profd::symbolize::ReadFunctionBegins(elf);
  if (begins.empty()) return absl::FailedPreconditionError("it has no table of functions");
  const std::string program = path.substr(path.rfind('/') + 1);

  profd::symbolize::SymbolLookup lookup(begins);
  if (!lookup.AddTables(elf)) return absl::FailedPreconditionError("it has no symbols");
  const std::vector<profd::symbolize::CoveringSymbol> symbols = lookup.Find();

  // CPU time: the machine may have other work.
  const auto ms = [](std::clock_t ticks) {
    return static_cast<double>(ticks) * 1000 / CLOCKS_PER_SEC;
  };
  const std::clock_t start = std::clock();
  const LocationTable locations =
      LocationTable::Read(elf, profd::symbolize::CrateOfProgram(program));
  const std::clock_t read = std::clock();
  const CrateMap map = CrateMap::Build(elf, locations, begins);
  const std::clock_t mapped = std::clock();
  ModuleInference inference(&elf, &locations, &map, begins);
  std::vector<std::optional<InferredName>> names;
  for (const uint64_t begin : begins) names.push_back(inference.Infer(begin));
  const std::clock_t inferred = std::clock();

  uint64_t rust = 0;
  uint64_t all = 0;
  uint64_t foreign = 0;  // named, but not Rust
  Sums total;
  std::map<Evidence, Sums> by_evidence;
  std::map<std::string, uint64_t> wrong;
  for (size_t i = 0; i + 1 < begins.size(); ++i) {
    if (symbols[i].name.empty()) continue;
    const Truth truth = TruthOf(symbols[i].name);
    const uint64_t size = begins[i + 1] - begins[i];
    all += size;
    if (truth.rust && truth.crate.empty()) continue;  // a name without a path has no truth
    if (truth.rust) rust += size;
    if (!names[i]) continue;
    if (roles && names[i]->role != CodeRole::kUnknown) {
      std::fprintf(stderr, "  %s: %s\n", WordOf(names[i]->role),
                   profd::Demangle(symbols[i].name).c_str());
    }
    if (names[i]->path.empty()) continue;
    if (!truth.rust) {
      foreign += size;
      continue;
    }
    total.Add(truth, *names[i], size);
    by_evidence[names[i]->evidence].Add(truth, *names[i], size);
    if (!Mentions(truth, names[i]->crate)) {
      wrong[absl::StrCat(names[i]->path, " for ", truth.module)] += size;
    }
  }
  PrintRow(program, "all", total, rust);
  PrintRow(program, "own locations", by_evidence[Evidence::kLocations], rust);
  PrintRow(program, "neighbors", by_evidence[Evidence::kNeighbors], rust);
  PrintRow(program, "standard library", by_evidence[Evidence::kStandard], rust);
  std::fprintf(
      stderr,
      "%s: %.1f MB of code, %.1f %% of it Rust, %.2f %% named but not Rust; %zu functions, "
      "%zu locations in %zu files, %zu KiB; read in %.0f ms; all code in %.0f ms, %zu KiB; then "
      "%.3f ms "
      "for each function\n",
      program.c_str(), static_cast<double>(all) / 1e6, Percent(rust, all), Percent(foreign, all),
      begins.size(), locations.record_count(), locations.files().size(),
      locations.MemoryBytes() / 1024, ms(read - start), ms(mapped - read), map.MemoryBytes() / 1024,
      ms(inferred - mapped) / static_cast<double>(begins.size()));
  std::vector<std::pair<uint64_t, std::string>> worst;
  for (const auto& [what, size] : wrong) worst.emplace_back(size, what);
  std::sort(worst.rbegin(), worst.rend());
  for (size_t i = 0; i < std::min(show, worst.size()); ++i) {
    std::fprintf(stderr, "  %5.2f %%  %s\n", Percent(worst[i].first, rust),
                 worst[i].second.c_str());
  }
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Infers the crates and modules of Rust programs and compares with their symbols");
  std::vector<std::string> paths;
  size_t show = 0;
  app.add_option("PROGRAM", paths, "programs and libraries that have their symbols")->required();
  app.add_option("--wrong", show, "show so many of the largest errors");
  bool roles = false;
  app.add_flag("--roles", roles, "list the functions whose code tells what they wait for");
  bool truth = false;
  app.add_flag("--truth", truth, "print crate, module and symbol of each function, and infer none");
  CLI11_PARSE(app, argc, argv);
  if (!truth) {
    std::printf(
        "| program | by | code named | crate right | or in the symbol | module right | or "
        "around it |\n|---|---|--:|--:|--:|--:|--:|\n");
  }
  for (const std::string& path : paths) {
    const absl::Status status = truth ? PrintTruth(path) : Measure(path, show, roles);
    if (status.ok()) continue;
    std::fprintf(stderr, "bench_infer: %s: %s\n", path.c_str(), status.ToString().c_str());
    return 1;
  }
  return 0;
}
