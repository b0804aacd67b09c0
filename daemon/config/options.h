// The command line of profd.
#ifndef PROFD_DAEMON_CONFIG_OPTIONS_H_
#define PROFD_DAEMON_CONFIG_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/limits.h"
#include "daemon/base/status.h"
#include "daemon/govern/budget.h"

namespace CLI {
class App;
}

namespace profd {

struct Options {
  std::vector<std::string> targets;  // PIDs and regular expressions; empty: everything
  std::string listen = "unix:///run/profd/profd.sock";
  int64_t tick_ns = 10'000'000;
  bool books = true;
  bool per_switch = true;
  bool tick = true;
  bool heap = true;
  bool faults = true;
  bool disk = true;
  bool mappings = true;
  bool wakers = true;
  bool switch_stacks = true;
  // CPU time between two samples of running code; 0: none are taken.
  int64_t cpu_interval_ns = 1'000'000'000 / 99;
  // How long and how often all calls to glibc's malloc are traced. Interval 0: never.
  int64_t burst_ns = 20'000'000;
  int64_t burst_interval_ns = 5'000'000'000;
  Budget budget;
  std::vector<std::string> debug_directories;
  Limits limits;
  std::string log_level = "info";
};

// "1%" is a share of the targets' CPU time, "0.02cpu" a part of one CPU, "off" means no limit.
// InvalidArgument for anything else, for 0, and for more than 100 % or one CPU.
absl::StatusOr<Budget> ParseBudget(const std::string& text);

// Length and interval of bursts, such as "20ms/5s". InvalidArgument for anything else, for a length
// outside of 1 to 100 ms, and for an interval shorter than ten times the length or longer than an
// hour.
struct BurstTimes {
  int64_t length_ns = 0;
  int64_t interval_ns = 0;
};
absl::StatusOr<BurstTimes> ParseBurst(const std::string& text);

// Shows the definition of the command line, for man pages and completions.
void WithCommandLine(const std::function<void(const CLI::App&)>& use);

// The parsed command line, or an exit code if there is nothing to run: 0 after --help and
// --version, 2 after a usage error (reported in one line on stderr).
struct ParsedOptions {
  Options options;
  std::optional<int> exit_code;
};
ParsedOptions ParseOptions(int argc, char** argv);

}  // namespace profd

#endif  // PROFD_DAEMON_CONFIG_OPTIONS_H_
