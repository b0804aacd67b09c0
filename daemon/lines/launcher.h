// Starts workers that read debug info.
#ifndef PROFD_DAEMON_LINES_LAUNCHER_H_
#define PROFD_DAEMON_LINES_LAUNCHER_H_

#include <sys/types.h>

#include <chrono>
#include <optional>

#include "daemon/base/fd.h"
#include "daemon/base/status.h"
#include "daemon/lines/sandbox.h"

namespace profd {

// A worker, a child of this process. Killed with this.
class LineWorker {
 public:
  LineWorker(UniqueFd socket, pid_t pid) : socket_(std::move(socket)), pid_(pid) {}
  LineWorker(LineWorker&& other) noexcept;
  LineWorker& operator=(LineWorker&& other) noexcept;
  ~LineWorker() { Stop(); }

  int socket() const { return socket_.get(); }
  pid_t pid() const { return pid_; }
  // Kills it. Returns the CPU time that it took, ns.
  int64_t Stop();

 private:
  UniqueFd socket_;
  pid_t pid_;  // 0: stopped
};

// A small process that forks workers. It is forked itself while profd has one thread, no target and
// little memory, so that a worker has none of that either.
class LineLauncher {
 public:
  // To be called before any thread is started.
  static absl::StatusOr<LineLauncher> Start(const WorkerLimits& limits);
  LineLauncher(LineLauncher&& other) noexcept;
  LineLauncher& operator=(LineLauncher&&) = delete;
  ~LineLauncher();

  // Waits up to `patience` for a worker. Nothing: it is on its way, call again. Unavailable if the
  // launcher has ended: it cannot be started again.
  absl::StatusOr<std::optional<LineWorker>> Launch(std::chrono::milliseconds patience);
  pid_t pid() const { return pid_; }

 private:
  LineLauncher(UniqueFd socket, pid_t pid) : socket_(std::move(socket)), pid_(pid) {}

  UniqueFd socket_;
  pid_t pid_;
  UniqueFd ordered_;  // our end of the socket of a worker that is on its way
};

}  // namespace profd

#endif  // PROFD_DAEMON_LINES_LAUNCHER_H_
