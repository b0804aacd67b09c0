// A profd under test and a client of it.
#ifndef PROFD_TESTS_SYSTEM_HARNESS_DAEMON_H_
#define PROFD_TESTS_SYSTEM_HARNESS_DAEMON_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/system/harness/answer.h"
#include "tests/system/harness/subprocess.h"

namespace profd::e2e {

// The kernel lets go of a probe after a grace period, which takes seconds where CPUs are
// overloaded.
constexpr milliseconds kLongestStop = seconds(240);
// For what comes within seconds on a quiet machine.
constexpr seconds kPatience(180);

class Daemon {
 public:
  struct Options {
    std::vector<std::string> targets{};
    std::vector<std::string> arguments{};  // further ones
    std::string socket{};                  // path; "" = one in a directory of its own
    bool budgets = false;                  // as shipped; otherwise nothing is given up
  };

  // Returns once profd said that it serves. Errors carry what it wrote.
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(const Options& options);

  // NotFound etc. as the daemon answered. A window of 0, 0 is the last `since`.
  absl::StatusOr<Answer> Fetch(const v1::FetchRequest& request) const;
  // What was recorded of a process since `begin_wall_ns`, 0 = as long as profd remembers.
  absl::StatusOr<Answer> FetchProcess(int pid, int64_t begin_wall_ns = 0) const;
  absl::StatusOr<v1::GetStatusResponse> Status() const;

  // Waits until the thread that leads process `pid` is seen with a complete stack: it is marked,
  // and the rules of its modules are there. Gives the end of the window in which it was, wall
  // clock ns; what comes after it is a window of its own. Empty when that did not happen in time.
  std::optional<int64_t> AwaitTarget(int pid, milliseconds timeout = seconds(60)) const;

  // SIGTERM; gives the exit code, or nothing when it did not end.
  std::optional<int> Stop(milliseconds timeout = kLongestStop);

  Subprocess& process() { return *process_; }
  std::string server() const { return "unix://" + socket_; }
  const std::string& socket() const { return socket_; }

 private:
  Daemon() = default;

  TemporaryDirectory directory_;
  std::string socket_;
  std::unique_ptr<Subprocess> process_;
  std::unique_ptr<v1::Profiler::Stub> stub_;
};

// The command line of a daemon that was not started by Daemon::Start.
Command DaemonCommand(const std::vector<std::string>& arguments);
// Runs `profctl` with these arguments against the daemon.
absl::StatusOr<Finished> Profctl(const Daemon& daemon, const std::vector<std::string>& arguments,
                                 const std::string& directory = "");

}  // namespace profd::e2e

#endif  // PROFD_TESTS_SYSTEM_HARNESS_DAEMON_H_
