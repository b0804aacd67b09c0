#include "client/usage/man_page.h"

#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace profctl {
namespace {

// Text of a line, without requests and escapes, and with hyphens that can be copied.
std::string Roff(std::string_view text) {
  std::string escaped = absl::StrReplaceAll(std::string(text), {{"\\", "\\e"}, {"-", "\\-"}});
  if (!escaped.empty() && (escaped[0] == '.' || escaped[0] == '\'')) escaped.insert(0, "\\&");
  return escaped;
}

std::string Argument(std::string_view text) {
  return absl::StrCat("\"", absl::StrReplaceAll(Roff(text), {{"\"", "\\(dq"}}), "\"");
}

std::string Bold(std::string_view text) { return absl::StrCat("\\fB", Roff(text), "\\fR"); }
std::string Italic(std::string_view text) { return absl::StrCat("\\fI", Roff(text), "\\fR"); }

void AppendOptions(const CommandUsage& command, std::string& text) {
  for (const OptionUsage& option : command.options) {
    std::vector<std::string> names;
    for (const std::string& name : option.names) names.push_back(Bold(name));
    std::string tag = absl::StrJoin(names, ", ");
    if (!option.value.empty()) {
      absl::StrAppend(&tag, tag.empty() ? "" : " ", Italic(option.value));
    }
    absl::StrAppend(&text, ".TP\n", tag, "\n", Roff(option.about));
    if (!option.about.empty() && option.about.back() != '.') text += ".";
    text += "\n";
    if (!option.choices.empty()) {
      std::vector<std::string> choices;
      for (const std::string& choice : option.choices) choices.push_back(Bold(choice));
      absl::StrAppend(&text, "One of ", absl::StrJoin(choices, ", "), ".\n");
    }
    if (!option.standard.empty()) absl::StrAppend(&text, "Default: ", Roff(option.standard), ".\n");
    if (!option.variable.empty()) {
      absl::StrAppend(&text, "Taken from the environment variable ", Bold(option.variable),
                      " if it is not given.\n");
    }
  }
}

// "Heading:" begins a section; indented lines are shown as they are; the rest is text.
void AppendNotes(const std::string& notes, const std::string& heading_macro, std::string& text) {
  bool literal = false;
  bool gap = false;
  bool headed = false;
  const auto end_literal = [&] {
    if (literal) text += ".fi\n.RE\n";
    literal = false;
  };
  for (const absl::string_view line : absl::StrSplit(notes, '\n')) {
    if (line.empty()) {
      gap = true;
      continue;
    }
    if (line[0] == ' ') {
      if (!literal) text += gap && headed ? ".PP\n.RS 2\n.nf\n" : ".RS 2\n.nf\n";
      literal = true;
      const absl::string_view shown = absl::StartsWith(line, "  ") ? line.substr(2) : line;
      absl::StrAppend(&text, Roff({shown.data(), shown.size()}), "\n");
    } else if (line.back() == ':') {
      end_literal();
      const std::string heading(line.substr(0, line.size() - 1));
      absl::StrAppend(&text, heading_macro, " ",
                      Argument(heading_macro == ".SH" ? absl::AsciiStrToUpper(heading) : heading),
                      "\n");
      headed = false;
      gap = false;
      continue;
    } else {
      end_literal();
      if (gap && headed) text += ".PP\n";
      absl::StrAppend(&text, Roff({line.data(), line.size()}), "\n");
    }
    gap = false;
    headed = true;
  }
  end_literal();
}

}  // namespace

std::string RenderManPage(const CommandUsage& usage, const ManPage& page) {
  std::string about = usage.about;
  const size_t sentence = about.find(". ");
  std::string first = about.substr(0, sentence);
  if (first.ends_with('.')) first.pop_back();
  if (!first.empty()) first[0] = absl::ascii_tolower(static_cast<unsigned char>(first[0]));
  std::string text = absl::StrCat(
      ".TH ", Argument(absl::AsciiStrToUpper(usage.name)), " ", page.section, " ", "\"", page.date,
      "\" ", Argument(absl::StrCat("profd ", page.version)), "\n.SH NAME\n", usage.name, " \\- ",
      Roff(first), "\n.SH SYNOPSIS\n.B ", usage.name, "\n.RI [ options ]\n");
  if (!usage.commands.empty()) text += ".RI [ command ]\n.RI [ \"options of the command\" ]\n";
  absl::StrAppend(&text, ".SH DESCRIPTION\n", Roff(about), "\n.SH OPTIONS\n");
  AppendOptions(usage, text);
  if (!usage.commands.empty()) {
    text += ".SH COMMANDS\n";
    for (const CommandUsage& command : usage.commands) {
      absl::StrAppend(&text, ".SS ", Argument(absl::StrCat(usage.name, " ", command.name)), "\n",
                      Roff(command.about), ".\n");
      AppendOptions(command, text);
      if (!command.notes.empty()) {
        if (command.notes.substr(0, command.notes.find('\n')).back() != ':') text += ".PP\n";
        AppendNotes(command.notes, ".SS", text);
      }
    }
  }
  AppendNotes(usage.notes, ".SH", text);
  if (!page.see_also.empty()) {
    text += ".SH \"SEE ALSO\"\n";
    for (size_t i = 0; i < page.see_also.size(); ++i) {
      const std::string& name = page.see_also[i];
      const size_t open = name.find('(');
      absl::StrAppend(&text, ".BR ", name.substr(0, open), " ", name.substr(open),
                      i + 1 < page.see_also.size() ? " ,\n" : "\n");
    }
  }
  return text;
}

}  // namespace profctl
