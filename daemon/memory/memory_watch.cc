#include "daemon/memory/memory_watch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/wrapping.h"
#include "daemon/memory/fields.h"
#include "daemon/memory/pss_estimate.h"

namespace profd {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kInterval = 5 * kSecond;
// Pause after a round, as a multiple of its duration.
constexpr int64_t kRestPerRound = 200;
// Answers accept values up to this age.
constexpr int64_t kFresh = kSecond;
constexpr absl::Duration kMostPatience = absl::Seconds(2);
// Mounts, the cgroup of a process, and the order of processes by size change rarely.
constexpr int64_t kRareInterval = 60 * kSecond;
// Of a command line; the rest is left out.
constexpr size_t kMostCommand = 1024;

// smaps_rollup walks the page tables and holds the memory map lock of the target for reading. It is
// read again after kRestPerPss times as long as the last read took. All reads together may take
// kPssShare of a CPU, and save up at most kMostPssBudget.
constexpr int64_t kRestPerPss = 4000;
constexpr double kPssShare = 0.0005;
constexpr int64_t kMostPssBudget = 10'000'000;
// Limit for one estimate.
constexpr int64_t kEstimateNs = 30'000'000;

// Bytes between two allocation events.
constexpr int64_t kEventBytes = 64 << 10;
// If threads that exited without an event account for fewer bytes than this, the live heap is still
// shown.
constexpr int64_t kLeastUnknown = 1 << 20;

// Number of resident pages; 0 if unknown.
int64_t ReadResident(const std::string& proc, int32_t pid) {
  const absl::StatusOr<std::string> text = ReadWholeFile(absl::StrCat(proc, "/", pid, "/statm"));
  if (!text.ok()) return 0;
  const std::vector<std::string_view> fields = SplitAt(*text, ' ');
  return fields.size() < 2 ? 0 : ParseNumber(fields[1]).value_or(0);
}

}  // namespace

MemoryWatch::MemoryWatch(CpuUse* cpu_use, MemoryWatchOptions options)
    : cpu_use_(cpu_use),
      options_(std::move(options)),
      timeline_(options_.timeline_bytes),
      worker_([this] { Work(); }) {}

MemoryWatch::~MemoryWatch() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  worker_.join();
}

void MemoryWatch::KeepOnly(const std::set<int32_t>& pids) {
  absl::MutexLock lock(&mutex_);
  std::erase_if(heap_, [&](const auto& entry) { return !pids.contains(entry.first); });
  if (pids == wanted_) return;
  if (wanted_.empty()) asked_ = true;
  wanted_ = pids;
  fresh_until_ns_ = 0;
}

void MemoryWatch::AddHeap(int32_t pid, const HeapGrowth& growth) {
  absl::MutexLock lock(&mutex_);
  HeapGrowth& sum = heap_[pid].sum;
  sum.allocated = WrappingAdd(sum.allocated, growth.allocated);
  sum.freed = WrappingAdd(sum.freed, growth.freed);
  sum.before = WrappingAdd(sum.before, growth.before);
  sum.quiet += growth.quiet;
  sum.lost |= growth.lost;
  sum.all_known |= growth.all_known;
}

void MemoryWatch::OnExec(int32_t pid) {
  absl::MutexLock lock(&mutex_);
  const auto heap = heap_.find(pid);
  if (heap == heap_.end()) return;
  heap->second.sum.all_known = heap->second.sum.lost = false;
  heap->second.before_program = heap->second.sum;
}

void MemoryWatch::SetUnread(std::set<int32_t> pids) {
  absl::MutexLock lock(&mutex_);
  unread_ = std::move(pids);
}

void MemoryWatch::DoubtHeaps() {
  absl::MutexLock lock(&mutex_);
  for (auto& [pid, heap] : heap_) heap.sum.lost = true;
}

std::optional<int64_t> MemoryWatch::LiveBytes(const Heap& heap, const ProcessStat& stat) {
  const HeapGrowth &now = heap.sum, &then = heap.before_program;
  if (stat.forked || !now.all_known || now.lost) return std::nullopt;
  const int64_t allocated = WrappingAdd(WrappingSubtract(now.allocated, then.allocated),
                                        WrappingSubtract(now.before, then.before));
  const int64_t live = WrappingSubtract(allocated, WrappingSubtract(now.freed, then.freed));
  const int64_t unknown = (now.quiet - then.quiet) * kEventBytes;
  if (live < 0 || unknown > std::max(kLeastUnknown, live / 50)) return std::nullopt;
  return live;
}

void MemoryWatch::SetOn(bool on) {
  absl::MutexLock lock(&mutex_);
  on_ = on;
  asked_ = on;
}

void MemoryWatch::Refresh(Asked asked) {
  absl::MutexLock lock(&mutex_);
  if (!on_) return;
  uint64_t wanted = rounds_begun_;
  if (MonotonicNs() >= fresh_until_ns_) {
    ++wanted;
    if (asked == nullptr) {
      asked_ = true;
    } else {
      asked_for_.push_back(std::move(asked));
    }
  }
  const auto done = [this, wanted]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || rounds_done_ >= wanted;
  };
  mutex_.AwaitWithTimeout(absl::Condition(&done), kMostPatience);
}

size_t MemoryWatch::unwatched() const {
  absl::MutexLock lock(&mutex_);
  return unwatched_;
}

// Runs at normal priority. At a lower one it could be preempted while it holds the memory map lock
// of a target, and the target would wait.
void MemoryWatch::Work() {
  const auto wake = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || (on_ && (asked_ || !asked_for_.empty()));
  };
  int64_t next_ns = MonotonicNs() + kInterval;
  while (true) {
    std::set<int32_t> wanted;
    std::vector<Asked> asked;
    {
      absl::MutexLock lock(&mutex_);
      const int64_t wait_ns = std::max<int64_t>(0, next_ns - MonotonicNs());
      mutex_.AwaitWithTimeout(absl::Condition(&wake), absl::Nanoseconds(wait_ns));
      if (stopping_) return;
      if (!on_) {
        next_ns = MonotonicNs() + kInterval;
        continue;
      }
      asked.swap(asked_for_);
      // What is due for all processes is read for these, too.
      if (asked_ || MonotonicNs() >= next_ns) asked.clear();
      wanted = wanted_;
      ++rounds_begun_;
      if (asked.empty()) {
        asked_ = false;
        fresh_until_ns_ = MonotonicNs() + kFresh;
      }
    }
    const int64_t began = MonotonicNs();
    const int64_t cpu = ThreadCpuNs();
    Round(wanted, asked);
    const int64_t took = ThreadCpuNs() - cpu;
    cpu_use_->memory += took;
    // A round for some processes takes nothing from the others.
    if (asked.empty()) next_ns = began + std::max(kInterval, took * kRestPerRound);
    absl::MutexLock lock(&mutex_);
    ++rounds_done_;
  }
}

bool MemoryWatch::IsAskedFor(int32_t pid, const std::vector<Asked>& asked, int64_t now_ns) const {
  if (asked.empty()) return true;
  const auto process = processes_.find(pid);
  // It has no name yet.
  if (process == processes_.end() || !process->second.start_ns) return true;
  return now_ns - process->second.read_ns >= kFresh &&
         std::any_of(asked.begin(), asked.end(),
                     [&](const Asked& asks) { return asks(pid, process->second.name); });
}

void MemoryWatch::Round(const std::set<int32_t>& wanted, const std::vector<Asked>& asked) {
  const int64_t now = MonotonicNs();
  const auto earned = kPssShare * static_cast<double>(now - pss_budget_as_of_ns_);
  pss_budget_ns_ = std::min(pss_budget_ns_ + static_cast<int64_t>(earned), kMostPssBudget);
  pss_budget_as_of_ns_ = now;
  if (now >= mounts_due_ns_) {
    const absl::StatusOr<std::string> text = ReadWholeFile(options_.proc + "/self/mountinfo");
    mounts_ = text.ok() ? CgroupMounts::Parse(*text) : CgroupMounts();
    mounts_due_ns_ = now + kRareInterval;
  }
  cgroups_.clear();
  quotas_.clear();
  for (auto it = processes_.begin(); it != processes_.end();) {
    if (wanted.contains(it->first)) {
      ++it;
      continue;
    }
    if (it->second.start_ns) timeline_.End(it->first, *it->second.start_ns);
    it = processes_.erase(it);
  }
  for (const int32_t pid : Choose(wanted, now)) {
    if (IsAskedFor(pid, asked, now)) Read(pid, now);
  }
  timeline_.Expire(now);
}

std::vector<int32_t> MemoryWatch::Choose(const std::set<int32_t>& wanted, int64_t now_ns) {
  std::vector<int32_t> pids(wanted.begin(), wanted.end());
  size_t unwatched = 0;
  if (pids.size() > options_.process_limit) {
    if (now_ns >= largest_due_ns_) {
      std::vector<std::pair<int64_t, int32_t>> by_size;
      for (const int32_t pid : pids) {
        // Kernel threads have no memory and do not count towards the limit.
        const int64_t pages = ReadResident(options_.proc, pid);
        if (pages > 0) by_size.emplace_back(pages, pid);
      }
      std::sort(by_size.rbegin(), by_size.rend());
      unwatched = by_size.size() - std::min(by_size.size(), options_.process_limit);
      by_size.resize(by_size.size() - unwatched);
      largest_.clear();
      for (const auto& [pages, pid] : by_size) largest_.insert(pid);
      largest_due_ns_ = now_ns + kRareInterval;
      absl::MutexLock lock(&mutex_);
      unwatched_ = unwatched;
    }
    std::erase_if(pids, [&](int32_t pid) { return !largest_.contains(pid); });
  } else {
    largest_due_ns_ = 0;
    absl::MutexLock lock(&mutex_);
    unwatched_ = 0;
  }
  std::stable_sort(pids.begin(), pids.end(), [&](int32_t a, int32_t b) {
    return processes_[a].pss_time_ns < processes_[b].pss_time_ns;
  });
  return pids;
}

void MemoryWatch::Read(int32_t pid, int64_t now_ns) {
  Process& process = processes_[pid];
  if (now_ns < process.skip_until_ns) return;
  // A process that cannot be read has exited, or will be missing from the timeline.
  const absl::StatusOr<ProcessDirectory> directory = ProcessDirectory::Open(options_.proc, pid);
  if (!directory.ok()) return;
  const bool whole = now_ns >= process.stat_due_ns;
  const int64_t cpu = ThreadCpuNs();
  // That of its first thread says the same but for the faults.
  const absl::StatusOr<std::string> stat_text =
      directory->Read(whole ? "stat" : absl::StrCat("task/", pid, "/stat").c_str());
  if (!stat_text.ok()) return;
  absl::StatusOr<ProcessStat> stat = ParseStat(*stat_text);
  if (!stat.ok()) return;
  if (process.start_ns != stat->start_ns) {
    if (process.start_ns) {
      // The PID was reused by another process.
      timeline_.End(pid, *process.start_ns);
      absl::MutexLock lock(&mutex_);
      heap_.erase(pid);
    }
    process = {};
    process.start_ns = stat->start_ns;
  }
  if (whole) process.stat_due_ns = now_ns + (ThreadCpuNs() - cpu) * options_.rest_per_stat;
  process.name = stat->name;
  process.read_ns = now_ns;
  if (stat->kernel_thread) {
    process.skip_until_ns = now_ns + kRareInterval;
    return;
  }
  const absl::StatusOr<std::string> status = directory->Read("status");
  const ProcessFigures figures = status.ok() ? ParseStatus(*status) : ProcessFigures();
  if (!figures.rss) return;  // a zombie

  MemoryPoint point;
  point.time_ns = MonotonicNs();
  point.rss = figures.rss;
  point.anon = figures.anon;
  point.file = figures.file;
  point.shmem = figures.shmem;
  point.swap = figures.swap;
  point.page_tables = figures.page_tables;
  point.threads = figures.threads;
  if (whole) {
    point.minor_faults = stat->minor_faults;
    point.major_faults = stat->major_faults;
  }
  ReadPss(*directory, pid, *figures.rss, now_ns, &process);
  point.pss = process.pss;
  point.pss_time_ns = process.pss_time_ns;
  point.pss_error = process.pss_error;
  if (now_ns >= process.cgroup_due_ns) {
    const absl::StatusOr<std::string> cgroup = directory->Read("cgroup");
    process.cgroup = cgroup.ok() ? ParseCgroup(*cgroup) : std::nullopt;
    const std::optional<CgroupPlace> cpu_cgroup =
        cgroup.ok() ? ParseCgroup(*cgroup, CgroupController::kCpu) : std::nullopt;
    if (process.cpu_cgroup && process.cpu_cgroup != cpu_cgroup) process.quota_moves++;
    process.cpu_cgroup = cpu_cgroup;
    const absl::StatusOr<std::string> command = directory->Read("cmdline", kMostCommand);
    process.command = command.ok() ? ParseCommand(*command) : "";
    process.cgroup_due_ns = now_ns + kRareInterval;
  }
  if (process.cgroup) point.cgroup = FiguresOf(*process.cgroup);
  if (process.cpu_cgroup) {
    point.quota = QuotaOf(*process.cpu_cgroup);
    point.quota_moves = process.quota_moves;
  }
  {
    absl::MutexLock lock(&mutex_);
    const auto heap = heap_.find(pid);
    const HeapGrowth sum = heap == heap_.end() ? HeapGrowth() : heap->second.sum;
    if (sum.allocated != 0 || sum.freed != 0) {
      point.allocated = sum.allocated;
      point.freed = sum.freed;
      if (!unread_.contains(pid)) point.live = LiveBytes(heap->second, *stat);
    }
  }
  timeline_.Add({.pid = pid,
                 .start_ns = stat->start_ns,
                 .name = std::move(stat->name),
                 .cgroup = process.cgroup.value_or(CgroupPlace()),
                 .command = process.command,
                 .note = process.note},
                point);
}

void MemoryWatch::ReadPss(const ProcessDirectory& directory, int32_t pid, int64_t rss,
                          int64_t now_ns, Process* process) {
  if (now_ns < process->pss_due_ns || pss_budget_ns_ <= 0) return;
  process->note.clear();
  process->pss = process->pss_error = std::nullopt;
  const bool estimated = rss > options_.largest_read_pss;
  absl::Status status;
  const int64_t cpu = ThreadCpuNs();
  if (estimated) {
    const auto estimate = EstimatePss(directory, rss, kEstimateNs, &random_);
    status = estimate.status();
    if (estimate.ok()) {
      process->pss = estimate->pss;
      process->pss_error = estimate->error;
    }
  } else {
    const absl::StatusOr<std::string> text = directory.Read("smaps_rollup");
    status = text.status();
    if (text.ok()) process->pss = ParsePss(*text);
  }
  const int64_t took = ThreadCpuNs() - cpu;
  pss_budget_ns_ -= took;
  process->pss_due_ns = now_ns + took * kRestPerPss;
  process->pss_time_ns = process->pss ? std::optional(MonotonicNs()) : std::nullopt;
  if (absl::IsPermissionDenied(status)) {
    process->note = absl::StrCat("PSS unknown: reading /proc/", pid,
                                 estimated ? "/pagemap" : "/smaps_rollup", " needs CAP_SYS_PTRACE");
    process->pss_due_ns = now_ns + kRareInterval;
  }
}

CgroupFigures MemoryWatch::FiguresOf(const CgroupPlace& place) {
  const auto [it, fresh] = cgroups_.try_emplace(place);
  if (fresh) it->second = ReadCgroup(place.version, mounts_.DirectoriesOf(place));
  return it->second;
}

CpuQuota MemoryWatch::QuotaOf(const CgroupPlace& place) {
  const auto [it, fresh] = quotas_.try_emplace(place);
  if (fresh) it->second = ReadCpuQuota(place.version, mounts_.DirectoriesOf(place));
  return it->second;
}

}  // namespace profd
