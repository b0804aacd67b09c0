// How right the classes of virtual functions are: hides the symbols of C++ programs, names
// functions by the tables of classes, and compares with the symbols.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "daemon/base/fd.h"
#include "daemon/base/status.h"
#include "daemon/symbolize/elf_symbols.h"
#include "daemon/symbolize/infer/function_begins.h"
#include "daemon/symbolize/rtti_names.h"
#include "daemon/symbolize/symbolizer.h"

namespace {

using profd::NameSource;
using profd::symbolize::CoveringSymbol;
using profd::symbolize::ElfFile;
using profd::symbolize::FoundName;

// "ns::Class<int>" of "ns::Class<int>::function"; empty if there is none.
std::string ClassOf(std::string_view function) {
  constexpr std::string_view kThunk = "thunk to ";
  if (const size_t thunk = function.find(kThunk); thunk != std::string_view::npos) {
    function.remove_prefix(thunk + kThunk.size());
  }
  int depth = 0;
  for (size_t i = function.size(); i > 1; --i) {
    const char c = function[i - 1];
    if (c == '>' || c == ')' || c == '}') ++depth;
    if (c == '<' || c == '(' || c == '{') --depth;
    if (depth == 0 && c == ':' && function[i - 2] == ':') {
      return std::string(function.substr(0, i - 2));
    }
  }
  return "";
}

std::string ClassOfName(const FoundName& name) {
  return name.symbol.substr(0, name.symbol.rfind("::"));
}

bool Matches(const CoveringSymbol& symbol, const std::string& type) {
  if (ClassOf(profd::Demangle(symbol.name)) == type) return true;
  return std::any_of(
      symbol.other_names.begin(), symbol.other_names.end(),
      [&](const std::string& other) { return ClassOf(profd::Demangle(other)) == type; });
}

double Percent(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

absl::Status Measure(const std::string& path, size_t show) {
  ASSIGN_OR_RETURN(const profd::UniqueFd fd, profd::OpenReadOnly(path));
  ASSIGN_OR_RETURN(const ElfFile elf, ElfFile::Open(fd.get()));
  const std::vector<uint64_t> begins = profd::symbolize::ReadFunctionBegins(elf);
  if (begins.empty()) return absl::FailedPreconditionError("it has no table of functions");
  profd::symbolize::SymbolLookup lookup(begins);
  if (!lookup.AddTables(elf)) return absl::FailedPreconditionError("it has no symbols");
  const std::vector<CoveringSymbol> symbols = lookup.Find();

  const auto name_all = [&](size_t from, size_t count) {
    std::vector<FoundName> names(count);
    for (size_t i = 0; i < count; ++i) {
      names[i] = {.symbol = "", .begin = begins[from + i], .source = NameSource::kBounds};
    }
    profd::symbolize::NameVirtualFunctions(elf, names);
    return names;
  };
  using Clock = std::chrono::steady_clock;
  const auto ms = [](Clock::duration d) {
    return std::chrono::duration<double, std::milli>(d).count();
  };
  // An answer asks for some hundred functions. More at once would exceed the bounds of one lookup.
  constexpr size_t kAtOnce = 1024;
  uint64_t all = 0, named = 0, right = 0, functions = 0, right_functions = 0;
  double longest_ms = 0, sum_ms = 0;
  for (size_t from = 0; from < begins.size(); from += kAtOnce) {
    const size_t count = std::min(kAtOnce, begins.size() - from);
    const auto start = Clock::now();
    const std::vector<FoundName> names = name_all(from, count);
    const double took = ms(Clock::now() - start);
    longest_ms = std::max(longest_ms, took);
    sum_ms += took;
    for (size_t i = 0; i < count; ++i) {
      const size_t f = from + i;
      const uint64_t size = f + 1 < begins.size() ? begins[f + 1] - begins[f] : 0;
      if (!symbols[f].name.starts_with("_Z")) continue;
      all += size;
      if (names[i].source != NameSource::kRtti) continue;
      named += size;
      ++functions;
      if (Matches(symbols[f], ClassOfName(names[i]))) {
        right += size;
        ++right_functions;
      } else if (show > 0) {
        --show;
        std::printf("  %s is %s\n", names[i].symbol.c_str(),
                    profd::Demangle(symbols[f].name).c_str());
      }
    }
  }
  const double calls = static_cast<double>((begins.size() + kAtOnce - 1) / kAtOnce);
  std::printf("| %s | %zu | %llu | %.1f %% | %.1f %% | %.1f %% | %.0f ms | %.0f ms |\n",
              path.substr(path.rfind('/') + 1).c_str(), begins.size(),
              static_cast<unsigned long long>(functions), Percent(named, all),
              Percent(right, named), Percent(right_functions, functions), sum_ms / calls,
              longest_ms);
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Compares classes of virtual functions with symbols");
  std::vector<std::string> programs;
  size_t wrong = 0;
  app.add_option("PROGRAM", programs, "C++ programs with symbols")->required();
  app.add_option("--wrong", wrong, "Prints so many errors");
  CLI11_PARSE(app, argc, argv);
  std::printf(
      "| program | functions | named | of C++ code | class right, of code | of functions | mean of "
      "1,024 | "
      "longest |\n|---|--:|--:|--:|--:|--:|--:|--:|\n");
  for (const std::string& program : programs) {
    if (const absl::Status status = Measure(program, wrong); !status.ok()) {
      std::fprintf(stderr, "%s: %s\n", program.c_str(), status.ToString().c_str());
      return 1;
    }
  }
  return 0;
}
