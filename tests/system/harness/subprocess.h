// A child process in its own process group, with pipes, that never outlives the test.
#ifndef PROFD_TESTS_SYSTEM_HARNESS_SUBPROCESS_H_
#define PROFD_TESTS_SYSTEM_HARNESS_SUBPROCESS_H_

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/base/fd.h"

namespace profd::e2e {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Command {
  std::vector<std::string> argv;                                   // argv[0] is looked up in PATH
  std::vector<std::pair<std::string, std::string>> environment{};  // added to ours
  std::string directory{};                                         // "" = ours
  std::string user{};                                              // "" = ours
};

class Subprocess {
 public:
  enum class Stream { kStdout = 0, kStderr = 1 };

  // Errors: what fork gives, or NotFound when argv[0] could not be executed.
  static absl::StatusOr<std::unique_ptr<Subprocess>> Start(const Command& command);

  // Kills the whole process group and reaps the child.
  ~Subprocess();
  Subprocess(const Subprocess&) = delete;
  Subprocess& operator=(const Subprocess&) = delete;

  pid_t pid() const { return pid_; }

  // The next line that was not taken yet, without its newline. Empty when none came in time or
  // the stream ended.
  std::optional<std::string> NextLine(Stream stream, milliseconds timeout);

  // Takes lines up to the first that contains `text`, and gives that one.
  std::optional<std::string> LineWith(Stream stream, std::string_view text, milliseconds timeout);

  bool Write(std::string_view text);
  void CloseStdin() { stdin_.reset(); }

  void Signal(int signal) const;

  // Exit code, or 128 + signal. Empty when it still runs at the end of `timeout`.
  std::optional<int> Wait(milliseconds timeout);
  // CPU time of the child and its own reaped children, ns; valid after Wait().
  int64_t cpu_ns() const { return cpu_ns_; }

  // Everything that was written to the stream so far. Complete once Wait() has returned and no
  // descendant holds the pipe.
  std::string Output(Stream stream) const;
  // Whether Output has all that was written so far.
  bool IsRead() const;

 private:
  Subprocess(pid_t pid, UniqueFd pidfd, UniqueFd in, UniqueFd out, UniqueFd err, UniqueFd stop);
  void ReadLoop();

  struct Channel {
    UniqueFd fd;
    std::string all;
    size_t taken = 0;  // bytes of `all` that were given out as lines
    bool ended = false;
  };

  const pid_t pid_;
  const UniqueFd pidfd_;
  UniqueFd stdin_;
  const UniqueFd stop_;  // eventfd that ends the reader
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Channel channels_[2];  // guarded by mutex_, but for the fds
  std::optional<int> exit_;
  int64_t cpu_ns_ = 0;
  std::thread reader_;
};

struct Finished {
  int code;
  std::string out, err;
};
// Runs a command to its end; kills it after `timeout` and reports DeadlineExceeded.
absl::StatusOr<Finished> RunToEnd(const Command& command, milliseconds timeout);

// A directory that is removed with all it holds. World-searchable, for servers under other users.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Calls `condition` until it holds, with short pauses. False when it did not in time.
template <typename Condition>
bool Eventually(milliseconds timeout, Condition condition) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return true;
}

using Stream = Subprocess::Stream;

}  // namespace profd::e2e

#endif  // PROFD_TESTS_SYSTEM_HARNESS_SUBPROCESS_H_
