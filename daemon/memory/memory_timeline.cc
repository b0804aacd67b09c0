#include "daemon/memory/memory_timeline.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <string_view>

#include "daemon/base/varint.h"
#include "daemon/base/wrapping.h"

namespace profd {
namespace {

constexpr int64_t kUs = 1000;
constexpr int64_t kMs = 1'000'000;
constexpr int64_t kKiB = 1024;
// A chunk is dropped as a whole: five minutes of a busy process.
constexpr uint32_t kChunkPoints = 60;
// Overhead of a map per entry.
constexpr size_t kNodeBytes = 48;

// Calls `f` with each figure of a point and the unit in which it is stored, in the order of the
// bits of the mask.
template <typename Point, typename F>
void ForEachFigure(Point& p, F f) {
  f(p.rss, kKiB);
  f(p.anon, kKiB);
  f(p.file, kKiB);
  f(p.shmem, kKiB);
  f(p.swap, kKiB);
  f(p.page_tables, kKiB);
  f(p.threads, 1);
  f(p.minor_faults, 1);
  f(p.major_faults, 1);
  f(p.pss, kKiB);
  f(p.pss_time_ns, kMs);
  f(p.pss_error, kKiB);
  f(p.cgroup.current, kKiB);
  f(p.cgroup.limit, kKiB);
  f(p.cgroup.oom_kills, 1);
  f(p.cgroup.limit_hits, 1);
  f(p.cgroup.high_hits, 1);
  f(p.quota.millicpus, 1);
  f(p.quota.level, 1);
  f(p.quota.periods, 1);
  f(p.quota.throttled_periods, 1);
  f(p.quota.throttled_ns, kUs);
  f(p.quota_moves, 1);
  f(p.allocated, 1);
  f(p.freed, 1);
  f(p.live, 1);
}
constexpr size_t kRss = 0, kMinorFaults = 7;

size_t HeapBytes(const std::string& text) {
  return text.capacity() > std::string().capacity() ? text.capacity() + 1 : 0;
}

}  // namespace

// The points of one process in a window, at most so many, and the largest RSS among all of them.
struct MemoryTimeline::Series {
  std::vector<std::pair<int64_t, Packed>> points;
  std::optional<std::pair<int64_t, Packed>> before;
  int64_t peak_rss = 0;
  int64_t bucket = 0;         // of the last point
  bool keeps_faults = false;  // a point of this bucket beside its last one
};

MemoryTimeline::Packed MemoryTimeline::Pack(const MemoryPoint& point) {
  Packed packed{};
  size_t i = 0;
  ForEachFigure(point, [&](const std::optional<int64_t>& figure, int64_t unit) {
    if (figure && *figure >= 0) {
      packed[i] = std::min(*figure / unit, std::numeric_limits<int64_t>::max() - 1) + 1;
    }
    ++i;
  });
  return packed;
}

MemoryPoint MemoryTimeline::Unpack(int64_t time_ms, const Packed& packed) {
  MemoryPoint point;
  point.time_ns = time_ms * kMs;
  size_t i = 0;
  ForEachFigure(point, [&](std::optional<int64_t>& figure, int64_t unit) {
    if (packed[i] > 0) figure = (packed[i] - 1) * unit;
    ++i;
  });
  return point;
}

void MemoryTimeline::Append(const MemoryPoint& point, Process* process) {
  const Packed now = Pack(point);
  int64_t ms = point.time_ns / kMs;
  std::vector<Chunk>& chunks = process->chunks;
  if (!chunks.empty()) ms = std::max(ms, chunks.back().last_ms);
  if (!chunks.empty() && process->flat && now == process->last) {
    // No change: the last point moves.
    Chunk& chunk = chunks.back();
    chunk.bytes.resize(process->last_at);
    PutVarint(static_cast<uint64_t>(ms - process->before_ms), &chunk.bytes);
    PutVarint(0, &chunk.bytes);
    chunk.last_ms = ms;
    return;
  }
  if (chunks.empty() || chunks.back().points == kChunkPoints) {
    if (!chunks.empty()) chunks.back().bytes.shrink_to_fit();
    chunks.push_back({.first_ms = ms, .last_ms = ms, .points = 0, .bytes = {}});
    process->last = {};
  }
  Chunk& chunk = chunks.back();
  process->flat = chunk.points > 0 && now == process->last;
  process->last_at = chunk.bytes.size();
  process->before_ms = chunk.last_ms;
  uint64_t mask = 0;
  for (size_t i = 0; i < kFigures; ++i) {
    mask |= uint64_t{now[i] != process->last[i]} << i;
  }
  PutVarint(static_cast<uint64_t>(ms - chunk.last_ms), &chunk.bytes);
  PutVarint(mask, &chunk.bytes);
  for (size_t i = 0; i < kFigures; ++i) {
    if ((mask >> i & 1) != 0) {
      PutZigzag(WrappingSubtract(now[i], process->last[i]), &chunk.bytes);
    }
  }
  chunk.last_ms = ms;
  ++chunk.points;
  process->last = now;
}

void MemoryTimeline::Decode(const Chunk& chunk,
                            const std::function<void(int64_t, const Packed&, bool)>& visit) {
  Packed figures{};
  int64_t ms = chunk.first_ms;
  std::string_view in = chunk.bytes;
  for (uint32_t point = 0; point < chunk.points; ++point) {
    uint64_t step = 0, mask = 0;
    if (!TakeVarint(&in, &step) || !TakeVarint(&in, &mask)) return;
    ms += static_cast<int64_t>(step);
    for (size_t i = 0; i < kFigures; ++i) {
      int64_t difference = 0;
      if ((mask >> i & 1) == 0) continue;
      if (!TakeZigzag(&in, &difference)) return;
      figures[i] = WrappingAdd(figures[i], difference);
    }
    visit(ms, figures, point > 0 && mask == 0);
  }
}

MemoryTimeline::Series MemoryTimeline::Take(const Process& process, const Query& query,
                                            size_t max_points) {
  const int64_t begin_ms = query.begin_ns / kMs;
  const int64_t end_ms = query.end_ns / kMs;
  const int64_t length_ms = std::max<int64_t>(end_ms - begin_ms, 1);
  Series series;
  const auto add = [&](int64_t ms, const Packed& figures) {
    series.peak_rss = std::max(series.peak_rss, figures[kRss]);
    const int64_t bucket = (ms - begin_ms) * static_cast<int64_t>(max_points) / length_ms;
    const size_t have = series.points.size();
    const bool again = have > 0 && series.points.back().first == ms;
    const bool same = have > 1 && bucket == series.bucket;
    if (!same) series.keeps_faults = false;
    // Faults are not read each time: beside the bucket's last point, one that has them is kept.
    const bool keep = same && !again && !series.keeps_faults && !figures[kMinorFaults] &&
                      series.points.back().second[kMinorFaults];
    series.keeps_faults |= keep;
    if (again || (same && !keep)) {
      series.points.back() = {ms, figures};
    } else {
      series.points.emplace_back(ms, figures);
    }
    series.bucket = bucket;
  };
  std::optional<std::pair<int64_t, Packed>> earlier;  // the last point before the window
  for (const Chunk& chunk : process.chunks) {
    if (chunk.first_ms > end_ms) break;
    std::optional<std::pair<int64_t, Packed>> before;
    Decode(chunk, [&](int64_t ms, const Packed& figures, bool flat) {
      if (flat && before && before->first < begin_ms && ms >= begin_ms) add(begin_ms, figures);
      if (flat && before && before->first < end_ms && ms > end_ms) add(end_ms, figures);
      if (ms < begin_ms) earlier.emplace(ms, figures);
      if (ms >= begin_ms && ms <= end_ms) add(ms, figures);
      before.emplace(ms, figures);
    });
  }
  if (series.points.empty() && earlier && !process.info.ended) add(earlier->first, earlier->second);
  series.before = earlier;
  return series;
}

void MemoryTimeline::Count(Process* process) {
  const WatchedProcess& info = process->info;
  size_t bytes = sizeof(Processes::value_type) + kNodeBytes + HeapBytes(info.name) +
                 HeapBytes(info.cgroup.path) + HeapBytes(info.note) +
                 process->chunks.capacity() * sizeof(Chunk);
  for (const Chunk& chunk : process->chunks) bytes += HeapBytes(chunk.bytes);
  bytes_ = bytes_ - process->counted + bytes;
  process->counted = bytes;
}

void MemoryTimeline::DropChunk(Process* process) {
  process->chunks.erase(process->chunks.begin());
  Count(process);
}

MemoryTimeline::Processes::iterator MemoryTimeline::EraseIfSpent(Processes::iterator it) {
  if (!it->second.info.ended || !it->second.chunks.empty()) return std::next(it);
  bytes_ -= it->second.counted;
  return processes_.erase(it);
}

void MemoryTimeline::Shrink() {
  while (bytes_ > max_bytes_) {
    auto oldest = processes_.end();
    for (auto it = processes_.begin(); it != processes_.end(); ++it) {
      if (it->second.chunks.empty()) continue;
      if (oldest == processes_.end() ||
          it->second.chunks.front().last_ms < oldest->second.chunks.front().last_ms) {
        oldest = it;
      }
    }
    if (oldest == processes_.end()) return;
    const Chunk& chunk = oldest->second.chunks.front();
    dropped_ += chunk.points;
    dropped_until_ms_ = std::max(dropped_until_ms_, chunk.last_ms);
    DropChunk(&oldest->second);
    EraseIfSpent(oldest);
  }
}

void MemoryTimeline::Add(const WatchedProcess& process, const MemoryPoint& point) {
  absl::MutexLock lock(&mutex_);
  Process& kept = processes_[{process.pid, process.start_ns}];
  kept.info = process;
  Append(point, &kept);
  Count(&kept);
  Shrink();
}

void MemoryTimeline::End(int32_t pid, int64_t start_ns) {
  absl::MutexLock lock(&mutex_);
  const auto it = processes_.find({pid, start_ns});
  if (it == processes_.end()) return;
  it->second.info.ended = true;
  EraseIfSpent(it);
}

void MemoryTimeline::Expire(int64_t now_ns) {
  const int64_t oldest_ms = (now_ns - max_age_ns_) / kMs;
  absl::MutexLock lock(&mutex_);
  for (auto it = processes_.begin(); it != processes_.end();) {
    std::vector<Chunk>& chunks = it->second.chunks;
    while (!chunks.empty() && chunks.front().last_ms < oldest_ms) DropChunk(&it->second);
    it = EraseIfSpent(it);
  }
}

std::vector<ProcessHistory> MemoryTimeline::Select(const Query& query) const {
  std::vector<ProcessHistory> histories;
  absl::MutexLock lock(&mutex_);
  std::vector<const Process*> matching;
  int64_t first_ms = std::numeric_limits<int64_t>::max();
  int64_t last_ms = std::numeric_limits<int64_t>::min();
  for (const auto& [key, process] : processes_) {
    if (process.chunks.empty() || !query.matches(process.info)) continue;
    matching.push_back(&process);
    first_ms = std::min(first_ms, process.chunks.front().first_ms);
    last_ms = std::max(last_ms, process.chunks.back().last_ms);
  }
  if (matching.empty()) return histories;
  // Points are spread over the part of the window that has data.
  Query within = query;
  within.begin_ns = std::max(query.begin_ns, first_ms * kMs);
  within.end_ns = std::min(query.end_ns, last_ms * kMs);
  const size_t points = std::clamp<size_t>(query.all_points / matching.size(), 1,
                                           std::max<size_t>(query.max_points, 1));
  for (const Process* process : matching) {
    const Series series = Take(*process, within, points);
    if (series.points.empty()) continue;
    ProcessHistory& history = histories.emplace_back();
    history.process = process->info;
    history.points.reserve(series.points.size());
    for (const auto& [ms, figures] : series.points) history.points.push_back(Unpack(ms, figures));
    if (series.before) history.before = Unpack(series.before->first, series.before->second);
    if (series.peak_rss > 0) history.peak_rss = (series.peak_rss - 1) * kKiB;
  }
  return histories;
}

size_t MemoryTimeline::Bytes() const {
  absl::MutexLock lock(&mutex_);
  return bytes_;
}

uint64_t MemoryTimeline::dropped() const {
  absl::MutexLock lock(&mutex_);
  return dropped_;
}

int64_t MemoryTimeline::dropped_until_ns() const {
  absl::MutexLock lock(&mutex_);
  return dropped_until_ms_ * kMs;
}

}  // namespace profd
