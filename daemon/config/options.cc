#include "daemon/config/options.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/io/terminal.h"
#include "client/text/text.h"
#include "client/usage/help.h"
#include "client/usage/unexpected.h"
#include "daemon/base/duration.h"
#include "daemon/config/limits.h"

namespace profd {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kShortestTick = 1'000'000;
constexpr int64_t kLongestTick = 1'000'000'000;
constexpr int kMostCpuRate = 1'000;
constexpr int64_t kShortestBurst = 1'000'000;
constexpr int64_t kLongestBurst = 100'000'000;
constexpr int64_t kLeastBurstIntervals = 10;
constexpr int64_t kLongestBurstInterval = 3600ll * 1'000'000'000;

constexpr const char* kFooter = R"(
Examples:
  profd --target op-reth            every process whose name matches, and its children
  profd --target 4711               one process, its threads and children
  profd                             every process in this PID namespace
  profctl fetch --since 60s         what threads waited for, after the fact
  profctl fetch --kind alloc        who allocated
  profctl memory                    what memory consists of, and whether it grows
  kill -USR1 $(pidof profd)         pause (almost no overhead); -USR2 resumes

Needs root, or CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE, CAP_CHECKPOINT_RESTORE, CAP_SYSLOG,
CAP_DAC_READ_SEARCH and CAP_SYS_NICE, before Linux 6.6 also CAP_SYS_ADMIN; docs/operating.md
says what each is for.)";

int UsageError(const std::string& what) {
  std::fprintf(stderr, "profd: %s (see profd --help)\n", what.c_str());
  return 2;
}

// What was typed, before it is understood.
struct Typed {
  Options options;
  std::string tick = "10ms";
  int cpu_rate = 99;
  std::string budget = "1%";
  std::string daemon_budget;
  std::string malloc_burst = "20ms/5s";
  std::vector<std::string> disabled;
  std::vector<std::string> limits;
};

void Define(CLI::App& app, Typed& typed) {
  app.name("profd");
  app.formatter(std::make_shared<profctl::HelpFormatter>(
      profctl::DetectTerminal().columns.value_or(profctl::kPageColumns)));
  app.description(
      "Always-on profiler of what processes wait for and what they allocate. Query it with "
      "profctl.");
  app.footer(absl::StrCat("\nLimits:\n", DescribeLimits(), kFooter));
  app.set_version_flag("--version", std::string("profd ") + PROFD_VERSION);
  app.add_option(
         "--target", typed.options.targets,
         "PID, or regular expression for names of processes and their programs' files; repeatable. "
         "Default: every "
         "process in this PID namespace except profd")
      ->type_name("PID|REGEX")
      ->allow_extra_args(false);
  app.add_option("--listen", typed.options.listen, "Where clients connect")
      ->type_name("unix:///PATH|HOST:PORT")
      ->capture_default_str();
  app.add_option("--tick", typed.tick, "Mean sampling interval, 1ms to 1s")
      ->type_name("DURATION")
      ->capture_default_str();
  app.add_option("--cpu-rate", typed.cpu_rate,
                 "Samples of running code per second of CPU time, 1 to 1000")
      ->type_name("HZ")
      ->check(CLI::Range(1, kMostCpuRate).description(""))
      ->capture_default_str();
  app.add_option(
         "--budget", typed.budget,
         "Limit for the total overhead: a share of the targets' CPU time, and at least that share "
         "of one CPU (1%); a part of one CPU (0.02cpu); or off. Unused budget is saved for bursts "
         "of load, up to a minute's worth. Above the limit, the most expensive source takes "
         "fewer samples. If that is not enough, these are given up in this order, until the "
         "overhead fits again: most allocation stacks, resident memory, mappings, malloc bursts, "
         "stacks of running code, disk requests, wakers, stacks of context switches, the switch "
         "layer, most ticks")
      ->type_name("PERCENT|CPUS|off")
      ->capture_default_str();
  // Before 0.1 there was a second budget for the daemon.
  app.add_option("--daemon-budget", typed.daemon_budget)->group("");
  app.add_option(
         "--disable", typed.disabled,
         "Leave a layer out: books (the kernel's own accounting), switch (exact time by "
         "reason, in the target's path), tick (stacks of waits), heap (allocations by stack), "
         "faults (resident memory by stack), mappings (address space by stack), bursts "
         "(glibc's malloc by stack), cpu (stacks of running code), disk (disk requests and file "
         "syncs by stack), wakers (who ended waits), switch-stacks (stacks of context switches); "
         "repeatable")
      ->type_name("LAYER")
      ->check(CLI::IsMember({"books", "switch", "tick", "heap", "faults", "mappings", "bursts",
                             "cpu", "disk", "wakers", "switch-stacks"}))
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--malloc-burst", typed.malloc_burst,
                 "Once per INTERVAL, trace all calls to glibc's malloc for LENGTH, 1ms to 100ms. "
                 "INTERVAL is at least ten times LENGTH. Totals are estimated from these bursts")
      ->type_name("LENGTH/INTERVAL")
      ->capture_default_str();
  app.add_option("--debug-dir", typed.options.debug_directories,
                 "Look here for debug files and unstripped copies, too, if a file has no symbols; "
                 "repeatable")
      ->type_name("DIR")
      ->check(CLI::Validator(CLI::ExistingDirectory).description(""))
      ->allow_extra_args(false);
  app.add_option("--limit", typed.limits,
                 "Bound on what profd keeps, see Limits below. What does not fit is counted as a "
                 "loss; repeatable")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  app.add_option("--log-level", typed.options.log_level, "Least severe messages to log on stderr")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error"}))
      ->capture_default_str();
}

absl::StatusOr<int64_t> ReadDuration(const std::string& text) {
  const absl::StatusOr<int64_t> ns = ParseDuration(text);
  if (ns.ok()) return ns;
  return absl::InvalidArgumentError(absl::StrCat("\"", profctl::CleanName(text), "\" ",
                                                 ns.status().message(),
                                                 "; use one such as 10ms, 0.02s or 5min"));
}

}  // namespace

void WithCommandLine(const std::function<void(const CLI::App&)>& use) {
  Typed typed;
  CLI::App app;
  Define(app, typed);
  use(app);
}

absl::StatusOr<Budget> ParseBudget(const std::string& text) {
  if (text == "off") return Budget{.share = kNoBudget};
  absl::string_view number = text;
  const bool of_targets = absl::ConsumeSuffix(&number, "%");
  double share = 0;
  if ((of_targets || absl::ConsumeSuffix(&number, "cpu")) && !number.empty() &&
      absl::c_all_of(number, [](char c) { return absl::ascii_isdigit(c) || c == '.'; }) &&
      absl::SimpleAtod(number, &share) && share > 0 && share <= (of_targets ? 100 : 1)) {
    return Budget{.share = of_targets ? share / 100 : share, .of_targets = of_targets};
  }
  return absl::InvalidArgumentError(absl::StrCat("\"", text,
                                                 "\" is not a budget; write a percentage of the "
                                                 "targets' CPU time such as 1%, a part of one CPU "
                                                 "such as 0.02cpu, or off"));
}

absl::StatusOr<BurstTimes> ParseBurst(const std::string& text) {
  const size_t slash = text.find('/');
  if (slash == text.npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is not a burst; write LENGTH/INTERVAL, such as 20ms/5s"));
  }
  const auto length = ReadDuration(text.substr(0, slash));
  if (!length.ok()) return length.status();
  const auto interval = ReadDuration(text.substr(slash + 1));
  if (!interval.ok()) return interval.status();
  if (*length < kShortestBurst || *length > kLongestBurst) {
    return absl::InvalidArgumentError("the length must be between 1ms and 100ms");
  }
  if (*interval < kLeastBurstIntervals * *length || *interval > kLongestBurstInterval) {
    return absl::InvalidArgumentError(
        "the interval must be at least ten times the length, and at most 3600s");
  }
  return BurstTimes{.length_ns = *length, .interval_ns = *interval};
}

ParsedOptions ParseOptions(int argc, char** argv) {
  ParsedOptions parsed;
  Typed typed;
  CLI::App app;
  Define(app, typed);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ExtrasError&) {
    parsed.exit_code = UsageError(profctl::DescribeUnexpected(app));
    return parsed;
  } catch (const CLI::ParseError& error) {
    // CLI11 reports --help and --version as errors with code 0.
    parsed.exit_code = error.get_exit_code() == 0 ? app.exit(error) : UsageError(error.what());
    return parsed;
  }
  Options& options = parsed.options;
  options = typed.options;
  const auto tick_ns = ReadDuration(typed.tick);
  if (!tick_ns.ok()) {
    parsed.exit_code = UsageError(absl::StrCat("--tick: ", tick_ns.status().message()));
    return parsed;
  }
  if (*tick_ns < kShortestTick || *tick_ns > kLongestTick) {
    parsed.exit_code = UsageError("--tick: must be between 1ms and 1s");
    return parsed;
  }
  options.tick_ns = *tick_ns;
  options.cpu_interval_ns = kSecond / typed.cpu_rate;
  if (!typed.daemon_budget.empty()) {
    parsed.exit_code = UsageError(
        "--daemon-budget was removed; --budget now limits the overhead of everything that profd "
        "does");
    return parsed;
  }
  const auto share = ParseBudget(typed.budget);
  if (!share.ok()) {
    parsed.exit_code = UsageError(absl::StrCat("--budget: ", share.status().message()));
    return parsed;
  }
  options.budget = *share;
  const auto burst = ParseBurst(typed.malloc_burst);
  if (!burst.ok()) {
    parsed.exit_code = UsageError(absl::StrCat("--malloc-burst: ", burst.status().message()));
    return parsed;
  }
  options.burst_ns = burst->length_ns;
  options.burst_interval_ns = burst->interval_ns;
  for (const std::string& limit : typed.limits) {
    if (const absl::Status status = SetLimit(limit, &options.limits); !status.ok()) {
      parsed.exit_code = UsageError(absl::StrCat("--limit: ", status.message()));
      return parsed;
    }
  }
  for (const std::string& layer : typed.disabled) {
    if (layer == "books") options.books = false;
    if (layer == "switch") options.per_switch = false;
    if (layer == "tick") options.tick = false;
    if (layer == "heap") options.heap = false;
    if (layer == "faults") options.faults = false;
    if (layer == "mappings") options.mappings = false;
    if (layer == "bursts") options.burst_interval_ns = 0;
    if (layer == "cpu") options.cpu_interval_ns = 0;
    if (layer == "disk") options.disk = false;
    if (layer == "wakers") options.wakers = false;
    if (layer == "switch-stacks") options.switch_stacks = false;
  }
  return parsed;
}

}  // namespace profd
