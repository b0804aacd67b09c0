// --help, as wide as the terminal.
#ifndef PROFD_CLIENT_USAGE_HELP_H_
#define PROFD_CLIENT_USAGE_HELP_H_

#include <cstddef>
#include <string>

#include "CLI/CLI.hpp"

namespace profctl {

class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(size_t columns) : columns_(columns) {}
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_subcommand(const CLI::App* command) const override;
  std::string make_description(const CLI::App* app) const override;
  std::string make_footer(const CLI::App* app) const override;

 private:
  size_t columns_;
};

}  // namespace profctl

#endif  // PROFD_CLIENT_USAGE_HELP_H_
