// Starts workers that read debug info.
#ifndef PROFD_DAEMON_LINES_LAUNCHER_H_
#define PROFD_DAEMON_LINES_LAUNCHER_H_

#include <sys/types.h>

#include "daemon/base/fd.h"
#include "daemon/base/status.h"
#include "daemon/lines/sandbox.h"

namespace profd {

// A worker, a child of this process. Killed with this.
class LineWorker {
 public:
  LineWorker(UniqueFd socket, pid_t pid) : socket_(std::move(socket)), pid_(pid) {}
  LineWorker(LineWorker&& other) noexcept;
  LineWorker& operator=(LineWorker&&) = delete;
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

  // Unavailable if the launcher has ended: it cannot be started again.
  absl::StatusOr<LineWorker> Launch();
  pid_t pid() const { return pid_; }

 private:
  LineLauncher(UniqueFd socket, pid_t pid) : socket_(std::move(socket)), pid_(pid) {}

  UniqueFd socket_;
  pid_t pid_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_LINES_LAUNCHER_H_
