// Memory that became resident while nobody was told who touched it.
#ifndef PROFD_DAEMON_SOURCE_UNSAMPLED_PAGES_H_
#define PROFD_DAEMON_SOURCE_UNSAMPLED_PAGES_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "absl/functional/function_ref.h"
#include "daemon/profile/profile.h"
#include "daemon/source/live_set.h"

namespace profd {

// While page faults are not told of, a process's anonymous memory grows by more than the sample
// knows. That is entered as [unsampled], so that nothing is told as zero that is not. Not
// thread-safe.
class UnsampledPages {
 public:
  // Bytes that the sample stands for in a process.
  using Sampled = absl::FunctionRef<int64_t(int32_t pid)>;
  // PID of a thread; 0: not known.
  using ProcessOf = absl::FunctionRef<int32_t(ThreadId thread)>;

  explicit UnsampledPages(std::string proc = "/proc") : proc_(std::move(proc)) {}

  // Nothing is told of from now on: remembers what these processes hold.
  void Begin(const std::set<int32_t>& pids, Sampled sampled);
  // Pages are told of again; what was entered stays until it is gone.
  void End() { off_ = false; }
  // At the end of a drain, by the ledgers of `delta`; adds to its samples what changed.
  void Drain(int64_t now_ns, ProcessOf process_of, Sampled sampled, ProfileDelta& delta);
  // The processes of all targets.
  void KeepOnly(const std::set<int32_t>& pids);
  // A process became another program.
  void Forget(int32_t pid);

 private:
  struct Process {
    int64_t before = 0;  // bytes that the sample did not know when it ended
    int64_t unsampled = 0;
    ThreadId thread{};  // that had the most faults meanwhile
  };
  struct Faults {
    int64_t all = 0;
    int64_t most = 0;
    ThreadId thread{};  // that had the most
  };

  // Of a process's anonymous memory what the sample does not know; -1: it cannot be read.
  int64_t RestOf(int32_t pid, Sampled sampled) const;
  void Enter(int32_t pid, Process& process, int64_t unsampled);

  const std::string proc_;
  bool off_ = false;
  int64_t next_look_ns_ = 0;
  std::map<int32_t, Process> processes_;
  LiveSet entries_{Kind::kResident};
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_UNSAMPLED_PAGES_H_
