#include "client/command_line/cli.h"

#include <memory>
#include <sstream>
#include <string>
#include <string_view>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/command_line/command_line.h"
#include "client/command_line/read_options.h"
#include "client/commands/status.h"
#include "client/io/connection.h"
#include "client/io/output.h"
#include "client/io/progress.h"
#include "client/text/text.h"
#include "client/usage/completion.h"
#include "client/usage/help.h"
#include "client/usage/unexpected.h"
#include "client/usage/usage.h"

namespace profctl {
namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;
constexpr int kExitGrew = 3;  // diff --fail-over

absl::Status PrintCompletion(const std::string& shell, const CommandUsage& usage,
                             std::ostream& out) {
  if (shell == "zsh") return Print(ZshCompletion(usage), out);
  if (shell == "fish") return Print(FishCompletion(usage), out);
  return Print(BashCompletion(usage), out);
}

int Report(const absl::Status& status, int code, std::ostream& err) {
  if (status.ok()) return 0;
  err << "profctl: " << CleanName(std::string(status.message()))
      << (code == kExitUsage ? " (see profctl --help)" : "") << std::endl;
  return code;
}

}  // namespace

int Run(int argc, const char* const* argv, std::ostream& out, std::ostream& err,
        const Terminal& terminal) {
  SetTerminalColumns(terminal.columns);
  Typed typed;
  CLI::App app;
  app.formatter(std::make_shared<HelpFormatter>(PageColumns()));
  DefineCommandLine(app, typed);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ExtrasError&) {
    return Report(absl::InvalidArgumentError(DescribeUnexpected(app)), kExitUsage, err);
  } catch (const CLI::RequiredError&) {
    err << "profctl: " << DescribeMissing(app) << std::endl;
    return kExitUsage;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      app.exit(error, out, err);
      return 0;
    }
    return Report(absl::InvalidArgumentError(error.what()), kExitUsage, err);
  }

  if (app.get_subcommands().empty()) {
    return Report(absl::InvalidArgumentError(
                      "no command; use fetch, symbolize, diff, why, bottlenecks, worst, "
                      "locks, stacks, threads, top, memory or status"),
                  kExitUsage, err);
  }
  const std::string command = app.get_subcommands().front()->get_name();
  if (command == "completion") {
    return Report(PrintCompletion(typed.shell, DescribeCommand(app), out), kExitFailure, err);
  }
  if (const absl::Status address = CheckAddress(typed.server); !address.ok()) {
    return Report(address, kExitUsage, err);
  }
  const auto print_page = [&](const auto& print) {
    Progress progress(terminal.progress ? &err : nullptr);
    progress.Say(absl::StrCat("profctl: waiting for profd at ", CleanName(typed.server)));
    std::ostringstream page;
    absl::Status status = print(page);
    progress.Finish();
    if (status.ok()) status = Print(page.str(), out);
    return Report(status, kExitFailure, err);
  };
  if (command == "status") {
    return print_page([&](std::ostream& page) {
      return PrintStatus(
          {typed.server, typed.page_format == "json", terminal.colour, typed.status_names}, page);
    });
  }
  const auto page_of = [&](const auto& options, const auto& print) {
    if (!options.ok()) return Report(options.status(), kExitUsage, err);
    auto coloured = *options;
    coloured.colour = terminal.colour || typed.colour;
    return print_page([&](std::ostream& page) { return print(coloured, page); });
  };
  if (command == "memory") return page_of(ReadMemory(typed), PrintMemory);
  if (command == "locks") return page_of(ReadLocks(typed), PrintLocks);
  if (command == "stacks") return page_of(ReadStacks(typed), PrintStacks);
  if (command == "threads") return page_of(ReadThreads(typed), PrintThreads);
  if (command == "why") return page_of(ReadWhy(typed), PrintWhy);
  if (command == "bottlenecks") return page_of(ReadBottlenecks(typed), PrintBottlenecks);
  if (command == "worst") return page_of(ReadWorst(typed), PrintWorst);
  if (command == "top") {
    absl::StatusOr<TopOptions> options = ReadTop(typed, terminal.screen);
    if (!options.ok()) return Report(options.status(), kExitUsage, err);
    options->colour = terminal.colour;
    return Report(RunTop(*options, out), kExitFailure, err);
  }
  if (command == "diff") {
    absl::StatusOr<DiffOptions> options = ReadDiff(typed);
    if (!options.ok()) return Report(options.status(), kExitUsage, err);
    options->colour = terminal.colour;
    options->progress = terminal.progress;
    bool grew = false;
    const int code = Report(RunDiff(*options, out, err, &grew), kExitFailure, err);
    return code == 0 && grew ? kExitGrew : code;
  }
  if (command == "symbolize") {
    absl::StatusOr<SymbolizeOptions> options = ReadSymbolize(typed);
    if (!options.ok()) return Report(options.status(), kExitUsage, err);
    options->fetch.colour = terminal.colour;
    options->fetch.progress = terminal.progress;
    return Report(Symbolize(*options, out, err), kExitFailure, err);
  }
  absl::StatusOr<FetchOptions> options = ReadFetch(typed);
  if (!options.ok()) return Report(options.status(), kExitUsage, err);
  options->colour = terminal.colour;
  options->progress = terminal.progress;
  options->next_steps = terminal.columns.has_value();
  return Report(Fetch(*options, out, err), kExitFailure, err);
}

}  // namespace profctl
