// The memory of processes over the last hour, and how their CPU quotas ran out, in bounded memory.
#ifndef PROFD_DAEMON_MEMORY_MEMORY_TIMELINE_H_
#define PROFD_DAEMON_MEMORY_MEMORY_TIMELINE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "daemon/base/limits.h"
#include "daemon/memory/cgroup.h"

namespace profd {

// What one process held at an instant. Bytes unless noted; absent: could not be read.
struct MemoryPoint {
  int64_t time_ns = 0;  // monotonic, kept to the millisecond
  std::optional<int64_t> rss, anon, file, shmem, swap, page_tables;
  std::optional<int64_t> threads;                     // number
  std::optional<int64_t> minor_faults, major_faults;  // number since the process started
  std::optional<int64_t> pss, pss_time_ns;            // and when it was read
  std::optional<int64_t> pss_error;                   // set if pss is an estimate
  CgroupFigures cgroup;
  CpuQuota quota;
  // Another number: the process has moved to another cgroup since, and `quota` is about that one.
  std::optional<int64_t> quota_moves;
  std::optional<int64_t> allocated, freed;  // since profd watches its allocator
  std::optional<int64_t> live;              // allocated less freed since its program started
};

struct WatchedProcess {
  int32_t pid = 0;
  int64_t start_ns = 0;  // as in ProcessStat
  std::string name;
  CgroupPlace cgroup;     // version 0: unknown
  std::string command{};  // its arguments, separated by spaces; shortened; empty: unknown
  std::string note;       // what cannot be read and why, or empty
  bool ended = false;
};

// A process and its points, oldest first.
struct ProcessHistory {
  WatchedProcess process;
  std::vector<MemoryPoint> points;
  std::optional<MemoryPoint> before;  // the last one before the window
  std::optional<int64_t> peak_rss;    // over all points in the window, including omitted ones
};

// A point is stored as the differences from the previous one, changed values only, in
// self-contained chunks: 3 to 30 bytes each instead of 150. So the limit holds almost an hour of
// 200 processes whose values all change all the time, and 20 minutes of 512. A stretch without
// changes takes two points. Beyond the limit the oldest chunk is dropped and its points are
// counted.
//
// Thread-safe.
class MemoryTimeline {
 public:
  explicit MemoryTimeline(size_t max_bytes = Limits{}.timeline,
                          int64_t max_age_ns = 3600ll * 1'000'000'000)
      : max_bytes_(max_bytes), max_age_ns_(max_age_ns) {}

  // Points of a process come in time order.
  void Add(const WatchedProcess& process, const MemoryPoint& point) ABSL_LOCKS_EXCLUDED(mutex_);
  // The process exited; its points stay.
  void End(int32_t pid, int64_t start_ns) ABSL_LOCKS_EXCLUDED(mutex_);
  // Drops points that are too old at `now_ns`.
  void Expire(int64_t now_ns) ABSL_LOCKS_EXCLUDED(mutex_);

  struct Query {
    int64_t begin_ns = 0;  // monotonic
    int64_t end_ns = 0;
    // Per process, not counting the first one. With many processes `all_points` is divided among
    // them.
    size_t max_points = 120;
    size_t all_points = 20'000;
    std::function<bool(const WatchedProcess&)> matches;
  };
  // The matching processes with points in the window. Running ones without any contribute their
  // last earlier point.
  std::vector<ProcessHistory> Select(const Query& query) const ABSL_LOCKS_EXCLUDED(mutex_);

  size_t Bytes() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Points dropped to keep the limit, and the latest of them, monotonic ns.
  uint64_t dropped() const ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t dropped_until_ns() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  static constexpr size_t kFigures = 26;
  // 0: absent; else the value in its unit, plus one.
  using Packed = std::array<int64_t, kFigures>;
  struct Chunk {
    int64_t first_ms = 0, last_ms = 0;
    uint32_t points = 0;
    std::string bytes;
  };
  struct Process {
    WatchedProcess info;
    std::vector<Chunk> chunks;  // oldest first; none is empty
    // The last point of the newest chunk, its position in the bytes, the time of the point before
    // it, and whether both have the same values.
    Packed last{};
    size_t last_at = 0;
    int64_t before_ms = 0;
    bool flat = false;
    size_t counted = 0;  // its size as included in bytes_
  };
  struct Series;
  using Key = std::pair<int32_t, int64_t>;
  using Processes = std::map<Key, Process>;

  static Packed Pack(const MemoryPoint& point);
  static MemoryPoint Unpack(int64_t time_ms, const Packed& packed);
  static void Append(const MemoryPoint& point, Process* process);
  // Calls `visit` with each point of a chunk and whether it has the same values as the previous
  // one.
  static void Decode(const Chunk& chunk,
                     const std::function<void(int64_t, const Packed&, bool)>& visit);
  static Series Take(const Process& process, const Query& query, size_t max_points);
  void Count(Process* process) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropChunk(Process* process) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Shrink() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes a process without data. Returns the next one.
  Processes::iterator EraseIfSpent(Processes::iterator it) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t max_bytes_;
  const int64_t max_age_ns_;
  mutable absl::Mutex mutex_;
  Processes processes_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t dropped_until_ms_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_MEMORY_MEMORY_TIMELINE_H_
