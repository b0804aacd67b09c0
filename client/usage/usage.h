// Describes a command line, read from its CLI11 definition: the one source of help, completions and
// man pages.
#ifndef PROFD_CLIENT_USAGE_USAGE_H_
#define PROFD_CLIENT_USAGE_USAGE_H_

#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
class Validator;
}  // namespace CLI

namespace profctl {

struct OptionUsage {
  std::vector<std::string> names;    // "-o", "--output"; none: positional
  std::string value;                 // "FILE"; empty: a flag
  std::vector<std::string> choices;  // every value there is; empty: any
  std::string about;
  std::string standard;  // the default; may be empty
  std::string variable;  // of the environment; may be empty
  bool list = false;     // several values, with commas between them
  bool repeats = false;  // may be given again
};

struct CommandUsage {
  std::string name;
  std::string about;
  std::vector<OptionUsage> options;
  std::vector<CommandUsage> commands;
  std::string notes;  // sections: "Heading:" and lines below it, indented or not
};

OptionUsage DescribeOption(const CLI::Option& option);
// Without hidden options and commands.
CommandUsage DescribeCommand(const CLI::App& app);

// Accepts one of `values`. The error is "'x' is not a, b or c"; for many values, "'x' is not
// `what`; use one of ...".
CLI::Validator OneOf(std::vector<std::string> values, std::string what = "");

}  // namespace profctl

#endif  // PROFD_CLIENT_USAGE_USAGE_H_
