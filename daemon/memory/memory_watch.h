// Reads the memory of the targets' processes every few seconds.
#ifndef PROFD_DAEMON_MEMORY_MEMORY_WATCH_H_
#define PROFD_DAEMON_MEMORY_MEMORY_WATCH_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "daemon/base/cpu_use.h"
#include "daemon/memory/cgroup.h"
#include "daemon/memory/memory_timeline.h"
#include "daemon/memory/process_memory.h"

namespace profd {

struct MemoryWatchOptions {
  std::string proc = "/proc";
  // With more processes than this, the largest are watched.
  size_t process_limit = 512;
  size_t timeline_bytes = Limits{}.timeline;
  // Above this RSS, PSS is estimated: reading it holds the memory map lock for too long. A GiB of
  // small pages takes about 25 ms.
  int64_t largest_read_pss = int64_t{4} << 30;
  // For the faults of a process the kernel adds up all its threads, with their signals locked: of
  // thousands this takes milliseconds. Read again after so many times as long as the last read
  // took.
  int64_t rest_per_stat = 4000;
};

// By the allocators' own counters, bytes.
struct HeapGrowth {
  int64_t allocated = 0, freed = 0;
  int64_t before = 0;  // allocated less freed by threads before they were first seen
  int64_t quiet =
      0;  // number of threads that exited before they were seen, with less than one event's worth
  bool lost = false;       // a thread exited whose totals are unknown
  bool all_known = false;  // a thread was seen before any had exited
};

// Thread-safe. Reads on its own thread, every 5 s, or less often to keep its CPU time below half a
// percent of one CPU.
class MemoryWatch {
 public:
  // `cpu_use` must outlive this.
  explicit MemoryWatch(CpuUse* cpu_use, MemoryWatchOptions options = {});
  ~MemoryWatch();
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;

  // The present processes of all targets.
  void KeepOnly(const std::set<int32_t>& pids) ABSL_LOCKS_EXCLUDED(mutex_);
  // What the threads of a process allocated and freed since the last call.
  void AddHeap(int32_t pid, const HeapGrowth& growth) ABSL_LOCKS_EXCLUDED(mutex_);
  // A process called exec.
  void OnExec(int32_t pid) ABSL_LOCKS_EXCLUDED(mutex_);
  // These processes have threads whose earlier totals are unknown, or not known yet.
  void SetUnread(std::set<int32_t> pids) ABSL_LOCKS_EXCLUDED(mutex_);
  // Exits of threads were lost, in an unknown process.
  void DoubtHeaps() ABSL_LOCKS_EXCLUDED(mutex_);
  // Stops or resumes reading.
  void SetOn(bool on) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether a process is asked for, by PID and name.
  using Asked = std::function<bool(int32_t pid, const std::string& name)>;
  // Returns when no value of these processes is older than a second, or after a timeout. It may ask
  // after it returned. Null: all.
  void Refresh(Asked asked = nullptr) ABSL_LOCKS_EXCLUDED(mutex_);

  const MemoryTimeline& timeline() const { return timeline_; }
  // Target processes that are not watched because of the limit.
  size_t unwatched() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Process {
    std::optional<int64_t> start_ns;  // none: not read yet
    std::string name;
    int64_t read_ns = 0;
    int64_t skip_until_ns = 0;  // kernel threads have no memory
    int64_t stat_due_ns = 0;    // of all its threads
    std::optional<CgroupPlace> cgroup, cpu_cgroup;
    int64_t quota_moves = 0;
    std::string command;
    int64_t cgroup_due_ns = 0;  // of the command too
    std::optional<int64_t> pss, pss_time_ns, pss_error;
    int64_t pss_due_ns = 0;
    std::string note;
  };
  struct Heap {
    HeapGrowth sum;
    HeapGrowth before_program;  // part of the sum from before the last exec
  };

  void Work();
  // Reads those of the processes that any of `asked` asks for; without any, all.
  void Round(const std::set<int32_t>& wanted, const std::vector<Asked>& asked)
      ABSL_LOCKS_EXCLUDED(mutex_);
  bool IsAskedFor(int32_t pid, const std::vector<Asked>& asked, int64_t now_ns) const;
  // The processes to read in this round, oldest PSS first.
  std::vector<int32_t> Choose(const std::set<int32_t>& wanted, int64_t now_ns);
  void Read(int32_t pid, int64_t now_ns);
  // Reads or estimates PSS if that is due and the common budget allows it.
  void ReadPss(const ProcessDirectory& directory, int32_t pid, int64_t rss, int64_t now_ns,
               Process* process);
  // Live bytes of the program; none if they are unknown for some of its threads.
  static std::optional<int64_t> LiveBytes(const Heap& heap, const ProcessStat& stat);
  CgroupFigures FiguresOf(const CgroupPlace& place);
  CpuQuota QuotaOf(const CgroupPlace& place);

  CpuUse* const cpu_use_;
  const MemoryWatchOptions options_;
  MemoryTimeline timeline_;

  // Used by the worker only.
  std::map<int32_t, Process> processes_;
  std::set<int32_t> largest_;  // if there are more than the limit
  int64_t largest_due_ns_ = 0;
  CgroupMounts mounts_;
  int64_t mounts_due_ns_ = 0;
  std::map<CgroupPlace, CgroupFigures> cgroups_;  // of this round
  std::map<CgroupPlace, CpuQuota> quotas_;        // of this round
  int64_t pss_budget_ns_ = 0;                     // CPU time for PSS; may be overdrawn once
  int64_t pss_budget_as_of_ns_ = 0;
  std::mt19937_64 random_{std::random_device()()};

  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool on_ ABSL_GUARDED_BY(mutex_) = true;
  bool asked_ ABSL_GUARDED_BY(mutex_) = false;                 // for all
  std::vector<Asked> asked_for_ ABSL_GUARDED_BY(mutex_) = {};  // for some
  std::set<int32_t> wanted_ ABSL_GUARDED_BY(mutex_);
  std::map<int32_t, Heap> heap_ ABSL_GUARDED_BY(mutex_);
  std::set<int32_t> unread_ ABSL_GUARDED_BY(mutex_);
  size_t unwatched_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t rounds_begun_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t rounds_done_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t fresh_until_ns_ ABSL_GUARDED_BY(mutex_) =
      0;                // the last round is recent enough until then
  std::thread worker_;  // last: it uses all of the above
};

}  // namespace profd

#endif  // PROFD_DAEMON_MEMORY_MEMORY_WATCH_H_
