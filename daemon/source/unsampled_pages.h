// Memory that became resident while page faults were not sampled.
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

// While sampling is off, the anonymous memory of a process grows beyond what the sample covers. The
// difference is shown as [unsampled] instead of as zero. Not thread-safe.
class UnsampledPages {
 public:
  // Bytes that the sample covers in a process.
  using Sampled = absl::FunctionRef<int64_t(int32_t pid)>;
  // PID of a thread; 0: unknown.
  using ProcessOf = absl::FunctionRef<int32_t(ThreadId thread)>;

  explicit UnsampledPages(std::string proc = "/proc") : proc_(std::move(proc)) {}

  // Sampling is off from now on. Remembers the present memory of these processes.
  void Begin(const std::set<int32_t>& pids, Sampled sampled);
  // Sampling is on again. Entries stay until their memory is gone.
  void End() { off_ = false; }
  // At the end of a drain, with the ledgers of `delta`. Adds the changes to its samples.
  void Drain(int64_t now_ns, ProcessOf process_of, Sampled sampled, ProfileDelta& delta);
  // The processes of all targets.
  void KeepOnly(const std::set<int32_t>& pids);
  // A process called exec.
  void Forget(int32_t pid);

 private:
  struct Process {
    int64_t before = 0;  // bytes not covered when sampling stopped
    int64_t unsampled = 0;
    ThreadId thread{};  // with the most faults since then
  };
  struct Faults {
    int64_t all = 0;
    int64_t most = 0;
    ThreadId thread{};  // that had the most
  };

  // Anonymous bytes of a process that the sample does not cover; -1: cannot be read.
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
