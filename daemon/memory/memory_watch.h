// Reads every few seconds what the processes of the targets hold of memory.
#ifndef PROFD_DAEMON_MEMORY_MEMORY_WATCH_H_
#define PROFD_DAEMON_MEMORY_MEMORY_WATCH_H_

#include <cstddef>
#include <cstdint>
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
  // Where there are more processes, the largest are watched.
  size_t process_limit = 512;
  size_t timeline_bytes = Limits{}.timeline;
  // Above this RSS PSS is estimated: to read it, the map would be held for longer than a target
  // should have to wait. A GiB of small pages takes some 25 ms.
  int64_t largest_read_pss = int64_t{4} << 30;
};

// By the allocators' own counters, bytes.
struct HeapGrowth {
  int64_t allocated = 0, freed = 0;
  int64_t before =
      0;  // what threads had allocated less freed when they were seen for the first time
  int64_t quiet =
      0;  // number: threads that ended before they were, with less than an event's worth
  bool lost = false;       // one ended of which it is not known what it had
  bool all_known = false;  // a thread was seen when none had ended yet
};

// Thread-safe. Reads on a thread of its own, every 5 s, or as much more rarely as keeps its CPU
// time under half a percent of one CPU.
class MemoryWatch {
 public:
  // `cpu_use` must outlive this.
  explicit MemoryWatch(CpuUse* cpu_use, MemoryWatchOptions options = {});
  ~MemoryWatch();
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;

  // The processes of all targets, as they are now.
  void KeepOnly(const std::set<int32_t>& pids) ABSL_LOCKS_EXCLUDED(mutex_);
  // What the threads of a process did since the last call.
  void AddHeap(int32_t pid, const HeapGrowth& growth) ABSL_LOCKS_EXCLUDED(mutex_);
  // A process became another program.
  void OnExec(int32_t pid) ABSL_LOCKS_EXCLUDED(mutex_);
  // These processes have threads of which it is not known, or not yet, what they had before.
  void SetUnread(std::set<int32_t> pids) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends of threads were lost, of whatever process.
  void DoubtHeaps() ABSL_LOCKS_EXCLUDED(mutex_);
  // Stops reading, or goes on.
  void SetOn(bool on) ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns when nothing is older than a second, or when that takes too long.
  void Refresh() ABSL_LOCKS_EXCLUDED(mutex_);

  const MemoryTimeline& timeline() const { return timeline_; }
  // Processes of targets that are left out to keep the limit.
  size_t unwatched() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Process {
    std::optional<int64_t> start_ns;  // none: not read yet
    int64_t skip_until_ns = 0;        // a thread of the kernel has no memory
    std::optional<CgroupPlace> cgroup;
    int64_t cgroup_due_ns = 0;
    std::optional<int64_t> pss, pss_time_ns, pss_error;
    int64_t pss_due_ns = 0;
    std::string note;
  };
  struct Heap {
    HeapGrowth sum;
    HeapGrowth before_program;  // of that sum, what was another program's
  };

  void Work();
  void Round(const std::set<int32_t>& wanted) ABSL_LOCKS_EXCLUDED(mutex_);
  // Those to be read in this round, the ones whose PSS is oldest first.
  std::vector<int32_t> Choose(const std::set<int32_t>& wanted, int64_t now_ns);
  void Read(int32_t pid, int64_t now_ns);
  // Reads or estimates it where that is due and the common budget allows.
  void ReadPss(const ProcessDirectory& directory, int32_t pid, int64_t rss, int64_t now_ns,
               Process* process);
  // What the program has of its allocators; none where that is not known of all its threads.
  static std::optional<int64_t> LiveBytes(const Heap& heap, const ProcessStat& stat);
  CgroupFigures FiguresOf(const CgroupPlace& place);

  CpuUse* const cpu_use_;
  const MemoryWatchOptions options_;
  MemoryTimeline timeline_;

  // The worker's alone.
  std::map<int32_t, Process> processes_;
  std::set<int32_t> largest_;  // where there are more than may be watched
  int64_t largest_due_ns_ = 0;
  CgroupMounts mounts_;
  int64_t mounts_due_ns_ = 0;
  std::map<CgroupPlace, CgroupFigures> cgroups_;  // of this round
  int64_t pss_budget_ns_ = 0;  // CPU time that may go into it; may be overdrawn once
  int64_t pss_budget_as_of_ns_ = 0;
  std::mt19937_64 random_{std::random_device()()};

  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool on_ ABSL_GUARDED_BY(mutex_) = true;
  bool asked_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<int32_t> wanted_ ABSL_GUARDED_BY(mutex_);
  std::map<int32_t, Heap> heap_ ABSL_GUARDED_BY(mutex_);
  std::set<int32_t> unread_ ABSL_GUARDED_BY(mutex_);
  size_t unwatched_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t rounds_begun_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t rounds_done_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t fresh_until_ns_ ABSL_GUARDED_BY(mutex_) = 0;  // until then the last round will do
  std::thread worker_;                                  // last: it uses all of the above
};

}  // namespace profd

#endif  // PROFD_DAEMON_MEMORY_MEMORY_WATCH_H_
