// Rows of an answer for threads that ended before they were known one by one: one for each process
// that is known, and one for all processes of a name that are not.
#ifndef PROFD_DAEMON_SOURCE_EXITED_THREADS_H_
#define PROFD_DAEMON_SOURCE_EXITED_THREADS_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "daemon/kernel/kernel.h"
#include "daemon/profile/profile.h"

namespace profd {

// Not thread-safe.
class ExitedThreads {
 public:
  // The process's name in the row of those for which there was no room.
  static constexpr char kOthers[] = "[short-lived processes]";

  // Without `books` the kernel's own totals are left out.
  explicit ExitedThreads(bool books) : books_(books) {}

  // What there was of such threads since the last drain.
  void Add(std::span<const ExitedEntry> entries);
  // Whether the name of a process is asked for, and what it is. `start_ns`: as in ThreadInfo.
  bool WantsName(int32_t pid) const { return names_.contains(pid); }
  void SetName(int32_t pid, const std::string& name, int64_t start_ns = 0) {
    names_[pid] = {name, start_ns};
  }

  // Ends a drain: moves what was added into `delta`, an info beside each ledger. Rows of processes
  // that are not `alive` any more are closed: their PIDs may be others' by the next drain.
  void Finish(ProfileDelta& delta, absl::FunctionRef<bool(int32_t pid)> alive);

  size_t rows() const { return rows_.size(); }

 private:
  using Key = std::tuple<uint32_t, int32_t, std::string>;  // target, PID, name of the process
  struct Row {
    ThreadId id{};
    int unused = 0;  // drains in a row
  };

  struct Process {
    std::string name;
    int64_t start_ns = 0;
  };

  Row& RowOf(const Key& key);

  const bool books_;
  std::vector<std::pair<Key, LedgerDelta>> pending_;
  std::map<Key, Row> rows_;
  std::map<int32_t, Process> names_;  // of the processes in pending_
  uint64_t next_ = 1;
};

// What such threads did together.
LedgerDelta LedgerOf(const profd_exited& exited, bool books);

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_EXITED_THREADS_H_
