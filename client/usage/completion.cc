#include "client/usage/completion.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace profctl {
namespace {

bool TakesFile(const OptionUsage& option) {
  return option.value == "FILE" || option.value.starts_with("FILE|");
}

bool HasFileArgument(const CommandUsage& command) {
  return std::any_of(command.options.begin(), command.options.end(), [](const OptionUsage& option) {
    return option.names.empty() && TakesFile(option);
  });
}

std::string Quote(std::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(std::string(text), {{"'", "'\\''"}}), "'");
}

std::string FirstSentence(const std::string& about) {
  const size_t end = about.find_first_of(";:(");
  std::string first = about.substr(0, end);
  while (!first.empty() && (first.back() == ' ' || first.back() == '.')) first.pop_back();
  return first;
}

std::string Words(const CommandUsage& command) {
  std::vector<std::string> words;
  for (const CommandUsage& inner : command.commands) words.push_back(inner.name);
  for (const OptionUsage& option : command.options) {
    if (option.names.empty()) {
      words.insert(words.end(), option.choices.begin(), option.choices.end());
    } else {
      words.insert(words.end(), option.names.begin(), option.names.end());
    }
  }
  return absl::StrJoin(words, " ");
}

// A case of `command:previous word` for each option that takes a value.
std::string BashValues(const CommandUsage& command, const std::string& prefix) {
  std::string text;
  for (const OptionUsage& option : command.options) {
    if (option.names.empty() || option.value.empty()) continue;
    std::vector<std::string> patterns;
    for (const std::string& name : option.names) patterns.push_back(absl::StrCat(prefix, name));
    absl::StrAppend(&text, "    ", absl::StrJoin(patterns, "|"), ")\n");
    if (option.list) {
      // Keep what precedes the last comma.
      absl::StrAppend(&text,
                      "      local before=\n"
                      "      [[ $current == *,* ]] && before=${current%,*},\n"
                      "      COMPREPLY=($(compgen -P \"$before\" -W ",
                      Quote(absl::StrJoin(option.choices, " ")), " -- \"${current##*,}\"))\n");
    } else if (!option.choices.empty()) {
      absl::StrAppend(&text, "      COMPREPLY=($(compgen -W ",
                      Quote(absl::StrJoin(option.choices, " ")), " -- \"$current\"))\n");
    } else if (TakesFile(option)) {
      text += "      compopt -o filenames 2>/dev/null\n";
      text += "      COMPREPLY=($(compgen -f -- \"$current\"))\n";
    }
    text += "      return ;;\n";
  }
  return text;
}

// _arguments interprets brackets, colons and backslashes.
std::string ZshText(const std::string& text) {
  return absl::StrReplaceAll(
      text, {{"\\", "\\\\"}, {"[", "\\["}, {"]", "\\]"}, {":", "\\:"}, {"'", "'\\''"}});
}

std::string ZshValue(const OptionUsage& option) {
  if (option.list) {
    return absl::StrCat("_sequence compadd - ", absl::StrJoin(option.choices, " "));
  }
  if (!option.choices.empty()) return absl::StrCat("(", absl::StrJoin(option.choices, " "), ")");
  return TakesFile(option) ? "_files" : " ";
}

std::string ZshOptions(const CommandUsage& command, const std::string& indent) {
  std::string text;
  int place = 0;
  for (const OptionUsage& option : command.options) {
    if (option.names.empty()) {
      absl::StrAppend(&text, " \\\n", indent, "'", ++place, ":", ZshText(option.value), ":",
                      ZshValue(option), "'");
      continue;
    }
    for (const std::string& name : option.names) {
      absl::StrAppend(&text, " \\\n", indent, "'", option.repeats ? "*" : "", name, "[",
                      ZshText(FirstSentence(option.about)), "]");
      if (!option.value.empty()) {
        absl::StrAppend(&text, ":", ZshText(option.value), ":", ZshValue(option));
      }
      text += "'";
    }
  }
  return text;
}

std::string FishOptions(const CommandUsage& command, const std::string& start) {
  std::string text;
  for (const OptionUsage& option : command.options) {
    text += start;
    for (const std::string& name : option.names) {
      const bool is_long = name.starts_with("--");
      absl::StrAppend(&text, is_long ? " -l " : " -s ", name.substr(is_long ? 2 : 1));
    }
    if (!option.names.empty() && !option.value.empty()) text += TakesFile(option) ? " -rF" : " -x";
    if (option.names.empty() && TakesFile(option)) text += " -F";
    if (!option.choices.empty()) {
      absl::StrAppend(&text, " -a ", Quote(absl::StrJoin(option.choices, " ")));
    }
    absl::StrAppend(&text, " -d ", Quote(FirstSentence(option.about)), "\n");
  }
  return text;
}

}  // namespace

std::string BashCompletion(const CommandUsage& usage) {
  std::string values = BashValues(usage, "*:");
  std::string words = absl::StrCat("    *) words=", Quote(Words(usage)), " ;;\n");
  std::vector<std::string> names;
  std::string inner_values;
  std::string inner_words;
  for (const CommandUsage& command : usage.commands) {
    names.push_back(command.name);
    inner_values += BashValues(command, command.name + ":");
    // Arguments may be files: readline offers them if nothing else fits.
    absl::StrAppend(&inner_words, "    ", command.name, ") words=", Quote(Words(command)),
                    HasFileArgument(command) ? "; compopt -o default 2>/dev/null" : "", " ;;\n");
  }
  std::string text = absl::StrCat("# bash completion of ", usage.name, "\n_", usage.name, "() {\n");
  text +=
      "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  local command= words= i\n"
      "  # bash splits --option=value at the sign.\n"
      "  if [[ $current == = ]]; then\n"
      "    current=\n"
      "  elif [[ $previous == = ]]; then\n"
      "    previous=${COMP_WORDS[COMP_CWORD-2]}\n"
      "  fi\n"
      "  COMPREPLY=()\n";
  if (!names.empty()) {
    absl::StrAppend(&text,
                    "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
                    "    case ${COMP_WORDS[i]} in\n      ",
                    absl::StrJoin(names, "|"),
                    ") command=${COMP_WORDS[i]}; break ;;\n"
                    "    esac\n"
                    "  done\n");
  }
  if (!values.empty() || !inner_values.empty()) {
    absl::StrAppend(&text, "  case $command:$previous in\n", inner_values, values, "  esac\n");
  }
  absl::StrAppend(&text, "  case $command in\n", inner_words, words,
                  "  esac\n"
                  "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
                  "}\ncomplete -F _",
                  usage.name, " ", usage.name, "\n");
  return text;
}

std::string ZshCompletion(const CommandUsage& usage) {
  std::string text = absl::StrCat("#compdef ", usage.name, "\n\n_", usage.name,
                                  "() {\n  local curcontext=$curcontext state line\n"
                                  "  typeset -A opt_args\n");
  if (usage.commands.empty()) {
    return absl::StrCat(text, "  _arguments", ZshOptions(usage, "    "), "\n}\n\n_", usage.name,
                        " \"$@\"\n");
  }
  std::string commands;
  std::string cases;
  for (const CommandUsage& command : usage.commands) {
    absl::StrAppend(&commands, "        ",
                    Quote(absl::StrCat(command.name, ":", FirstSentence(command.about))), "\n");
    absl::StrAppend(&cases, "        ", command.name, ")\n          _arguments",
                    ZshOptions(command, "            "), " ;;\n");
  }
  return absl::StrCat(text, "  _arguments -C", ZshOptions(usage, "    "),
                      " \\\n    '1:command:->command' \\\n    '*::argument:->argument'\n"
                      "  case $state in\n    command)\n      local -a commands\n      commands=(\n",
                      commands,
                      "      )\n      _describe command commands ;;\n"
                      "    argument)\n      case $line[1] in\n",
                      cases, "      esac ;;\n  esac\n}\n\n_", usage.name, " \"$@\"\n");
}

std::string FishCompletion(const CommandUsage& usage) {
  const std::string start = absl::StrCat("complete -c ", usage.name);
  std::string text = absl::StrCat("# fish completion of ", usage.name, "\n", start, " -f\n",
                                  FishOptions(usage, start));
  for (const CommandUsage& command : usage.commands) {
    absl::StrAppend(&text, start, " -n __fish_use_subcommand -a ", command.name, " -d ",
                    Quote(FirstSentence(command.about)), "\n",
                    FishOptions(command, absl::StrCat(start, " -n '__fish_seen_subcommand_from ",
                                                      command.name, "'")));
  }
  return text;
}

}  // namespace profctl
