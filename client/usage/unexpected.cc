#include "client/usage/unexpected.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/text/text.h"
#include "client/usage/usage.h"

namespace profctl {
namespace {

constexpr size_t kMostTypos = 2;

// How many characters to insert, remove or replace (Levenshtein's distance).
size_t TyposBetween(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);  // of a's first characters, to all beginnings of b
  std::iota(row.begin(), row.end(), 0);
  for (const char c : a) {
    size_t diagonal = row[0]++;
    for (size_t i = 0; i < b.size(); i++) {
      const size_t replaced = diagonal + (b[i] == c ? 0 : 1);
      diagonal = row[i + 1];
      row[i + 1] = std::min({replaced, row[i] + 1, diagonal + 1});
    }
  }
  return row.back();
}

// The name that is nearest to what was typed; empty: none is near.
std::string Nearest(std::string_view typed, const std::vector<std::string>& names) {
  std::string nearest;
  size_t fewest = kMostTypos + 1;
  for (const std::string& name : names) {
    const size_t typos = TyposBetween(typed, name);
    if (typos < fewest && typos < name.size() / 2) {
      fewest = typos;
      nearest = name;
    }
  }
  return nearest;
}

std::string Guess(const std::string& name) {
  return name.empty() ? "" : absl::StrCat("; did you mean ", name, "?");
}

}  // namespace

std::string DescribeUnexpected(const CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  const CommandUsage usage = DescribeCommand(chosen.empty() ? app : *chosen.front());
  // CLI11 gives the last ones first.
  std::vector<std::string> extras = app.remaining(true);
  std::reverse(extras.begin(), extras.end());
  const auto option = std::find_if(extras.begin(), extras.end(),
                                   [](const std::string& text) { return text.starts_with("-"); });
  std::vector<std::string> names;
  for (const OptionUsage& each : usage.options) {
    names.insert(names.end(), each.names.begin(), each.names.end());
  }
  const std::string owner = chosen.empty() ? "there is" : usage.name + " has";
  if (option != extras.end()) {
    const std::string typed = option->substr(0, option->find('='));
    return absl::StrCat(owner, " no option ", CleanName(typed), Guess(Nearest(typed, names)));
  }
  const std::string extra = extras.empty() ? "" : CleanName(extras.front());
  if (usage.commands.empty()) {
    const bool targets = std::find(names.begin(), names.end(), "--target") != names.end();
    return absl::StrCat(
        "unexpected argument '", extra, "'",
        targets ? absl::StrCat("; to select processes, use --target ", extra) : std::string());
  }
  names.clear();
  for (const CommandUsage& command : usage.commands) names.push_back(command.name);
  const std::string nearest = Nearest(extra, names);
  return absl::StrCat(
      "there is no command '", extra, "'",
      nearest.empty() ? absl::StrCat("; use one of ", absl::StrJoin(names, ", ")) : Guess(nearest));
}

std::string DescribeMissing(const CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  const CLI::App& command = chosen.empty() ? app : *chosen.front();
  std::vector<std::string> missing;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_required() && option->empty()) missing.push_back(option->get_name());
  }
  return absl::StrCat(command.get_name(), " needs ", absl::StrJoin(missing, " and "),
                      "; see profctl ", command.get_name(), " --help");
}

}  // namespace profctl
