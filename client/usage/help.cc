#include "client/usage/help.h"

#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/text/text.h"
#include "client/usage/usage.h"

namespace profctl {
namespace {

constexpr size_t kIndent = 26;  // of the text beside an option
constexpr size_t kCommandIndent = 14;
// On narrow pages the text is below the option.
constexpr size_t kNarrow = 60;
constexpr size_t kNarrowIndent = 6;

// `left`, with `right` wrapped beside it, or below it if `left` is too long.
std::string Beside(const std::string& left, std::string_view right, size_t indent, size_t columns) {
  const std::string margin(indent, ' ');
  const std::string wrapped = Wrap(right, columns, margin);
  if (DisplayWidth(left) + 2 > indent) return absl::StrCat(left, "\n", wrapped);
  if (wrapped.empty()) return left + "\n";
  return PadRight(left, indent) + wrapped.substr(indent);
}

// A line of a table or an example, "  left   right"; only a table has texts that are too long.
std::string Row(const std::string& line, size_t columns) {
  const size_t left = line.find_first_not_of(' ');
  const size_t gap = line.find("  ", left);
  if (DisplayWidth(line) <= columns || gap == line.npos) return absl::StrCat(line, "\n");
  const size_t right = line.find_first_not_of(' ', gap);
  return Beside(line.substr(0, gap), line.substr(right), right, columns);
}

}  // namespace

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  const OptionUsage usage = DescribeOption(*option);
  std::string left = "  " + (is_positional ? usage.value : absl::StrJoin(usage.names, ", "));
  if (!is_positional && !usage.value.empty()) absl::StrAppend(&left, " ", usage.value);
  std::string right = usage.about;
  if (!usage.standard.empty()) absl::StrAppend(&right, " (default: ", usage.standard, ")");
  if (!usage.variable.empty()) absl::StrAppend(&right, " [", usage.variable, "]");
  const size_t indent = columns_ < kNarrow ? kNarrowIndent : kIndent;
  std::string text = Beside(left, right, indent, columns_);
  if (!usage.choices.empty()) {
    text +=
        Wrap("One of: " + absl::StrJoin(usage.choices, ", "), columns_, std::string(indent, ' '));
  }
  return text;
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  return Beside("  " + command->get_name(), command->get_description(), kCommandIndent, columns_);
}

std::string HelpFormatter::make_description(const CLI::App* app) const {
  return Wrap(app->get_description(), columns_, "") + "\n";
}

// Paragraphs and the right sides of rows are wrapped.
std::string HelpFormatter::make_footer(const CLI::App* app) const {
  std::string text;
  std::string paragraph;
  const auto flush = [&] {
    text += Wrap(paragraph, columns_, "");
    paragraph.clear();
  };
  for (const absl::string_view line : absl::StrSplit(app->get_footer(), '\n')) {
    if (line.empty() || line[0] == ' ' || line.back() == ':') {
      flush();
      text += Row(std::string(line), columns_);
    } else {
      absl::StrAppend(&paragraph, line, " ");
    }
  }
  flush();
  while (text.size() > 1 && text.ends_with("\n\n")) text.pop_back();
  return text;
}

}  // namespace profctl
