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
  bool mappings = true;
  // Bursts of tracing of glibc's malloc: one of `burst_ns` in each interval; 0: none.
  int64_t burst_ns = 20'000'000;
  int64_t burst_interval_ns = 5'000'000'000;
  Budget budget;
  Limits limits;
  std::string log_level = "info";
};

// A duration such as "10ms", "500us", "2s", in ns. InvalidArgument for anything else.
absl::StatusOr<int64_t> ParseDuration(const std::string& text);

// "1%" is a share of the CPU time that targets use, "0.02cpu" one of one CPU, "off" no budget.
// InvalidArgument for anything else, and for shares that are not above 0 or above all.
absl::StatusOr<Budget> ParseBudget(const std::string& text);

// A burst's length and the interval that it is in, such as "20ms/5s", ns. InvalidArgument for
// anything else; for a length below 1 ms or above 100 ms, or an interval below ten times that or
// above an hour.
struct BurstTimes {
  int64_t length_ns = 0;
  int64_t interval_ns = 0;
};
absl::StatusOr<BurstTimes> ParseBurst(const std::string& text);

// Shows the definition of the command line, for man pages and completions.
void WithCommandLine(const std::function<void(const CLI::App&)>& use);

// What the command line says, or the exit code when there is nothing left to do: 0 after --help and
// --version, 2 for usage that is wrong (one line on stderr says what).
struct ParsedOptions {
  Options options;
  std::optional<int> exit_code;
};
ParsedOptions ParseOptions(int argc, char** argv);

}  // namespace profd

#endif  // PROFD_DAEMON_CONFIG_OPTIONS_H_
