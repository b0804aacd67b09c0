// Rows that stand for threads and processes that exited, so that what comes and goes by the
// thousand takes a few rows. Their numbers are sums: nothing is lost but who did what.
#ifndef PROFD_DAEMON_STORE_FOLDING_H_
#define PROFD_DAEMON_STORE_FOLDING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "daemon/profile/profile.h"

namespace profd {

// So many threads that exited keep their own rows in a segment.
inline constexpr size_t kMaxExitedThreads = 512;
// And in an answer, which holds many segments.
inline constexpr size_t kMaxExitedRows = 2048;
// So many processes that exited have rows of their own in a segment.
inline constexpr size_t kMaxExitedProcesses = 512;
// And so many names have a row for the processes that had them.
inline constexpr size_t kMaxExitedNames = 512;

// A process as far as the store can tell it from others.
struct ProcessKey {
  uint32_t target = 0;
  int32_t pid = 0;
  int64_t start_ns = 0;
  friend bool operator==(const ProcessKey&, const ProcessKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const ProcessKey& key) {
    return H::combine(std::move(h), key.target, key.pid, key.start_ns);
  }
};
ProcessKey ProcessKeyOf(const ThreadInfo& info);

// A row for the threads of this one's process that exited.
std::shared_ptr<const ThreadInfo> ExitedThreadsOf(const ThreadInfo& thread);
// A row for the processes of this name and target that exited. Several processes have no PID and no
// start time in common: both are 0.
std::shared_ptr<const ThreadInfo> ExitedProcessesOf(const ThreadInfo& thread);

// Whether it is a row for several threads of a process, or for several processes.
bool IsExitedThreads(const ThreadInfo& info);
bool IsExitedProcesses(const ThreadInfo& info);

// Gives the row for processes that exited by their name. Names are bounded too: what programs call
// themselves is up to them.
class ExitedNames {
 public:
  std::shared_ptr<const ThreadInfo> RowFor(const ThreadInfo& thread);

 private:
  absl::flat_hash_set<ThreadId> rows_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_STORE_FOLDING_H_
