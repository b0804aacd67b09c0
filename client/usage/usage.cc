#include "client/usage/usage.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/text/text.h"

namespace profctl {
namespace {

constexpr size_t kFewValues = 4;  // up to this many are named in a sentence

// CLI11 puts the values of an option into the name of its type: "NAME:{a,b}".
void ReadType(std::string type, OptionUsage& usage) {
  const size_t colon = type.find(":{");
  const size_t open = colon != std::string::npos ? colon + 1 : type.find('{');
  if (open != std::string::npos && type.back() == '}') {
    usage.choices = absl::StrSplit(type.substr(open + 1, type.size() - open - 2), ',');
    type.resize(colon != std::string::npos ? colon : open);
  }
  usage.value = type;
}

}  // namespace

OptionUsage DescribeOption(const CLI::Option& option) {
  OptionUsage usage;
  for (const std::string& name : option.get_snames()) usage.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) usage.names.push_back("--" + name);
  // A flag takes no value, whatever its type.
  if (option.get_items_expected_max() > 0) {
    ReadType(option.get_type_name(), usage);
    if (usage.value.empty()) usage.value = usage.names.empty() ? option.get_name() : "VALUE";
  }
  usage.about = option.get_description();
  usage.standard = option.get_default_str();
  usage.variable = option.get_envname();
  usage.list = option.get_delimiter() != '\0';
  usage.repeats = option.get_items_expected_max() > 1;
  return usage;
}

CommandUsage DescribeCommand(const CLI::App& app) {
  CommandUsage usage;
  usage.name = app.get_name();
  usage.about = app.get_description();
  usage.notes = app.get_footer();
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_group().empty()) usage.options.push_back(DescribeOption(*option));
  }
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    if (!command->get_group().empty()) usage.commands.push_back(DescribeCommand(*command));
  }
  return usage;
}

CLI::Validator OneOf(std::vector<std::string> values, std::string what) {
  const std::string type = absl::StrCat("{", absl::StrJoin(values, ","), "}");
  return CLI::Validator(
      [values = std::move(values), what = std::move(what)](std::string& text) -> std::string {
        if (std::find(values.begin(), values.end(), text) != values.end()) return "";
        const std::string start = absl::StrCat("'", CleanName(text), "' is not ");
        if (values.size() > kFewValues) {
          return absl::StrCat(start, what, "; use one of ", absl::StrJoin(values, ", "));
        }
        const std::vector<std::string> first(values.begin(), values.end() - 1);
        return absl::StrCat(start, absl::StrJoin(first, ", "), " or ", values.back());
      },
      type);
}

}  // namespace profctl
