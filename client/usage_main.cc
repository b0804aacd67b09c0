// Writes the man pages and completions of profctl and profd into a directory. Run by the build.
#include <filesystem>
#include <iostream>
#include <string>
#include <system_error>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "client/command_line/command_line.h"
#include "client/io/output.h"
#include "client/usage/completion.h"
#include "client/usage/man_page.h"
#include "client/usage/usage.h"
#include "daemon/base/status.h"
#include "daemon/config/options.h"

namespace profctl {
namespace {

absl::Status WriteAll(const std::string& directory, const CommandUsage& usage,
                      const ManPage& page) {
  const std::string& name = usage.name;
  RETURN_IF_ERROR(
      WriteFile(absl::StrCat(directory, "/", name, ".", page.section), RenderManPage(usage, page)));
  RETURN_IF_ERROR(WriteFile(absl::StrCat(directory, "/", name, ".bash"), BashCompletion(usage)));
  RETURN_IF_ERROR(WriteFile(absl::StrCat(directory, "/_", name), ZshCompletion(usage)));
  return WriteFile(absl::StrCat(directory, "/", name, ".fish"), FishCompletion(usage));
}

absl::Status WriteUsage(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  Typed typed;
  CLI::App app;
  DefineCommandLine(app, typed);
  RETURN_IF_ERROR(WriteAll(directory, DescribeCommand(app),
                           {.section = 1,
                            .version = PROFD_VERSION,
                            .date = PROFD_DATE,
                            .see_also = {"profd(8)", "perf(1)"}}));
  absl::Status status;
  profd::WithCommandLine([&](const CLI::App& daemon) {
    status = WriteAll(directory, DescribeCommand(daemon),
                      {.section = 8,
                       .version = PROFD_VERSION,
                       .date = PROFD_DATE,
                       .see_also = {"profctl(1)", "capabilities(7)"}});
  });
  return status;
}

}  // namespace
}  // namespace profctl

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: profd_usage DIRECTORY\n";
    return 2;
  }
  const absl::Status status = profctl::WriteUsage(argv[1]);
  if (!status.ok()) std::cerr << "profd_usage: " << status.message() << "\n";
  return status.ok() ? 0 : 1;
}
