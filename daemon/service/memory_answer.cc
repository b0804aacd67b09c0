#include "daemon/service/memory_answer.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "daemon/base/wrapping.h"
#include "daemon/service/allocation_sites.h"
#include "daemon/service/estimates.h"
#include "daemon/service/messages.h"
#include "daemon/service/process_ids.h"
#include "daemon/service/text.h"

namespace profd {
namespace {

constexpr size_t kMaxProcesses = 1024;
// Of all processes, without their sites. Clients take messages of 4 MiB unless they set a limit.
constexpr size_t kMaxProcessBytes = 7 << 19;
constexpr size_t kMaxPath = 1024;
constexpr size_t kMaxHeapThreads = 32;  // of a process

struct HeapSum {
  int64_t allocated = 0, freed = 0;
};

struct MappingSum {
  int64_t mapped = 0, unmapped = 0, returned = 0;
};

// What mapping calls did in the window; of processes of which any was seen.
std::map<ProcessId, MappingSum> MappingsByProcess(const MergedProfile& profile,
                                                  const ProcessIds& ids) {
  std::map<ProcessId, MappingSum> sums;
  for (const MergedThread& thread : profile.threads) {
    for (const Sample& sample : thread.samples) {
      if (!IsMapping(sample.key.kind)) continue;
      MappingSum& process = sums[ids.Of(*thread.info)];
      int64_t& sum = sample.key.kind == Kind::kMapped     ? process.mapped
                     : sample.key.kind == Kind::kUnmapped ? process.unmapped
                                                          : process.returned;
      sum = WrappingAdd(sum, sample.weight);
    }
  }
  return sums;
}

std::map<ProcessId, int64_t> LiveByProcess(const MergedProfile& profile, const ProcessIds& ids) {
  std::map<ProcessId, int64_t> sums;
  for (const MergedThread& thread : profile.threads) {
    for (const Sample& sample : thread.samples) {
      if (sample.key.kind != Kind::kInuse) continue;
      int64_t& sum = sums[ids.Of(*thread.info)];
      sum = WrappingAdd(sum, sample.weight);
    }
  }
  return sums;
}

// Since when the live heap is counted, wall clock ns, by PID.
std::map<int32_t, int64_t> LiveSince(const std::vector<AllocatorUse>& allocators) {
  std::map<int32_t, int64_t> since;
  for (const AllocatorUse& use : allocators) {
    if (use.live_since_wall_ns == 0) continue;
    for (const int32_t pid : use.state.pids) {
      since[pid] = std::max(since[pid], use.live_since_wall_ns);
    }
  }
  return since;
}

// Of the threads of which anything is known.
std::map<ProcessId, HeapSum> HeapByProcess(const MergedProfile& profile, const ProcessIds& ids) {
  std::map<ProcessId, HeapSum> sums;
  for (const MergedThread& thread : profile.threads) {
    const HeapDelta& allocated = thread.ledger.allocated();
    const HeapDelta& freed = thread.ledger.freed();
    if (allocated.bytes == 0 && freed.bytes == 0 && allocated.events == 0 && freed.events == 0) {
      continue;
    }
    HeapSum& sum = sums[ids.Of(*thread.info)];
    sum.allocated = WrappingAdd(sum.allocated, allocated.bytes);
    sum.freed = WrappingAdd(sum.freed, freed.bytes);
  }
  return sums;
}

// Of the processes, those threads that allocated most.
std::map<ProcessId, std::vector<const MergedThread*>> HeapThreads(const MergedProfile& profile,
                                                                  const ProcessIds& ids) {
  std::map<ProcessId, std::vector<const MergedThread*>> threads;
  for (const MergedThread& thread : profile.threads) {
    if (thread.ledger.allocated().bytes == 0 && thread.ledger.freed().bytes == 0) continue;
    threads[ids.Of(*thread.info)].push_back(&thread);
  }
  for (auto& [id, list] : threads) {
    std::stable_sort(list.begin(), list.end(), [](const auto* a, const auto* b) {
      return a->ledger.allocated().bytes > b->ledger.allocated().bytes;
    });
    list.resize(std::min(list.size(), kMaxHeapThreads));
  }
  return threads;
}

// "jemalloc 5.3.0" by PID; several stand in a row.
std::map<int32_t, std::string> AllocatorNames(const std::vector<AllocatorUse>& allocators) {
  std::map<int32_t, std::string> names;
  for (const AllocatorUse& use : allocators) {
    if (use.state.estimated) continue;  // it keeps no count
    std::string name = use.state.allocator;
    if (!use.state.version.empty()) absl::StrAppend(&name, " ", CleanText(use.state.version, 64));
    for (const int32_t pid : use.state.pids) {
      std::string& all = names[pid];
      absl::StrAppend(&all, all.empty() ? "" : ", ", name);
    }
  }
  return names;
}

void FillPoint(const MemoryPoint& point, int64_t wall_offset_ns, v1::MemoryPoint* out) {
  out->set_time_ns(point.time_ns + wall_offset_ns);
  if (point.rss) out->set_rss_bytes(*point.rss);
  if (point.anon) out->set_anon_bytes(*point.anon);
  if (point.file) out->set_file_bytes(*point.file);
  if (point.shmem) out->set_shmem_bytes(*point.shmem);
  if (point.swap) out->set_swap_bytes(*point.swap);
  if (point.page_tables) out->set_page_table_bytes(*point.page_tables);
  if (point.threads) out->set_threads(*point.threads);
  if (point.minor_faults) out->set_minor_faults(*point.minor_faults);
  if (point.major_faults) out->set_major_faults(*point.major_faults);
  if (point.pss) out->set_pss_bytes(*point.pss);
  if (point.pss_error) out->set_pss_error_bytes(*point.pss_error);
  if (point.pss_time_ns) out->set_pss_time_ns(*point.pss_time_ns + wall_offset_ns);
  const CgroupFigures& cgroup = point.cgroup;
  if (cgroup.current) out->set_cgroup_current_bytes(*cgroup.current);
  if (cgroup.limit) out->set_cgroup_limit_bytes(*cgroup.limit);
  if (cgroup.oom_kills) out->set_cgroup_oom_kills(*cgroup.oom_kills);
  if (cgroup.limit_hits) out->set_cgroup_limit_hits(*cgroup.limit_hits);
  if (cgroup.high_hits) out->set_cgroup_high_hits(*cgroup.high_hits);
  if (point.allocated) out->set_allocated_bytes(*point.allocated);
  if (point.freed) out->set_freed_bytes(*point.freed);
  if (point.live) out->set_live_bytes(*point.live);
}

int64_t LastRss(const ProcessHistory& history) { return history.points.back().rss.value_or(0); }

}  // namespace

std::vector<ProcessId> FillProcesses(std::vector<ProcessHistory> histories,
                                     const MergedProfile& profile,
                                     const std::vector<AllocatorUse>& allocators,
                                     int64_t wall_offset_ns, v1::GetMemoryResponse* response) {
  const ProcessIds ids(IdsOf(histories));
  const std::map<ProcessId, HeapSum> heap = HeapByProcess(profile, ids);
  const std::map<ProcessId, int64_t> live = LiveByProcess(profile, ids);
  const std::map<ProcessId, MappingSum> mappings = MappingsByProcess(profile, ids);
  const std::map<ProcessId, std::vector<const MergedThread*>> threads = HeapThreads(profile, ids);
  const std::map<int32_t, std::string> names = AllocatorNames(allocators);
  const std::map<int32_t, int64_t> live_since = LiveSince(allocators);
  std::stable_sort(histories.begin(), histories.end(),
                   [](const auto& a, const auto& b) { return LastRss(a) > LastRss(b); });
  const int64_t boot_to_wall_ns = WallNs() - BootNs();
  std::vector<ProcessId> listed;
  size_t bytes = 0;
  for (const ProcessHistory& history : histories) {
    if (listed.size() == kMaxProcesses) break;
    const WatchedProcess& process = history.process;
    const ProcessId id{process.pid, process.start_ns};
    v1::ProcessMemory* out = response->add_processes();
    out->set_pid(process.pid);
    out->set_name(CleanText(process.name, 256));
    out->set_started_ns(process.start_ns + boot_to_wall_ns);
    out->set_ended(process.ended);
    out->set_note(CleanText(process.note, kMaxPath));
    for (const MemoryPoint& point : history.points) {
      FillPoint(point, wall_offset_ns, out->add_points());
    }
    if (history.peak_rss) out->set_peak_rss_bytes(*history.peak_rss);
    if (process.cgroup.version != 0 && history.points.back().cgroup.current) {
      out->mutable_cgroup()->set_path(CleanText(process.cgroup.path, kMaxPath));
      out->mutable_cgroup()->set_version(static_cast<uint32_t>(process.cgroup.version));
    }
    if (const auto sum = heap.find(id); sum != heap.end()) {
      out->set_allocated_bytes(sum->second.allocated);
      out->set_freed_bytes(sum->second.freed);
    }
    if (const auto list = threads.find(id); list != threads.end()) {
      for (const MergedThread* thread : list->second) {
        v1::ThreadHeap* one = out->add_threads();
        one->set_tid(thread->info->tid);
        one->set_name(CleanText(thread->info->name, 64));
        one->set_allocated_bytes(thread->ledger.allocated().bytes);
        one->set_freed_bytes(thread->ledger.freed().bytes);
      }
    }
    if (const auto sum = mappings.find(id); sum != mappings.end()) {
      out->set_mapped_bytes(std::max<int64_t>(sum->second.mapped, 0));
      out->set_unmapped_bytes(std::max<int64_t>(sum->second.unmapped, 0));
      out->set_returned_bytes(std::max<int64_t>(sum->second.returned, 0));
    }
    // Allocators are those of processes that run.
    if (ids.IsYoungest(id)) {
      if (const auto name = names.find(process.pid); name != names.end()) {
        out->set_allocator(name->second);
      }
      if (const auto since = live_since.find(process.pid); since != live_since.end()) {
        const auto sum = live.find(id);
        out->set_live_bytes(sum == live.end() ? 0 : std::max<int64_t>(sum->second, 0));
        out->set_live_since_ns(since->second);
      }
    }
    const MemoryPoint& last = history.points.back();
    if (last.live) {
      out->set_live_bytes(*last.live);
      out->set_live_since_ns(out->started_ns());
      out->set_live_counted(true);
    }
    if (last.allocated && last.freed) out->set_net_allocated_bytes(*last.allocated - *last.freed);
    bytes += out->ByteSizeLong();
    if (bytes > kMaxProcessBytes) {
      response->mutable_processes()->RemoveLast();
      break;
    }
    listed.push_back(id);
  }
  response->set_processes_left_out(static_cast<uint32_t>(histories.size() - listed.size()));
  return listed;
}

void FillQuota(const ProcessHistory& history, int64_t wall_offset_ns, v1::Process* process) {
  if (history.points.empty()) return;
  const MemoryPoint& last = history.points.back();
  const MemoryPoint& first = history.before ? *history.before : history.points.front();
  // It may have been lifted meanwhile.
  const std::optional<int64_t> millicpus =
      last.quota.millicpus ? last.quota.millicpus : first.quota.millicpus;
  if (!millicpus) return;
  v1::CpuQuota* out = process->mutable_cpu_quota();
  out->set_millicpus(*millicpus);
  out->set_level(static_cast<int32_t>(last.quota.level.value_or(0)));
  out->set_begin_ns(last.time_ns + wall_offset_ns);
  out->set_end_ns(last.time_ns + wall_offset_ns);
  const auto grown = [&](std::optional<int64_t> CpuQuota::* figure) {
    const std::optional<int64_t>&then = first.quota.*figure, &now = last.quota.*figure;
    return then && now ? *now - *then : -1;
  };
  const int64_t periods = grown(&CpuQuota::periods);
  const int64_t throttled_periods = grown(&CpuQuota::throttled_periods);
  const int64_t throttled_ns = grown(&CpuQuota::throttled_ns);
  // The numbers are of two cgroups.
  if (first.quota.level != last.quota.level || first.quota_moves != last.quota_moves) return;
  if (periods < 0 || throttled_periods < 0 || throttled_ns < 0) return;
  out->set_begin_ns(first.time_ns + wall_offset_ns);
  out->set_periods(periods);
  out->set_throttled_periods(throttled_periods);
  out->set_throttled_ns(throttled_ns);
}

v1::MemoryLine MemoryLineOf(const std::vector<ProcessHistory>& histories,
                            const MergedProfile& profile, bool all_threads) {
  v1::MemoryLine line;
  const auto add = [](const std::optional<int64_t>& figure, std::optional<int64_t>* sum) {
    if (figure) *sum = WrappingAdd(sum->value_or(0), *figure);
  };
  std::optional<int64_t> rss, anon, growth;
  int64_t growth_ns = 0;
  const ProcessHistory* first = nullptr;
  bool one_cgroup = true;
  for (const ProcessHistory& history : histories) {
    if (history.process.ended) continue;
    line.set_processes(line.processes() + 1);
    const MemoryPoint& begin = history.points.front();
    const MemoryPoint& end = history.points.back();
    add(end.rss, &rss);
    add(end.anon, &anon);
    if (end.time_ns > begin.time_ns && begin.rss && end.rss) {
      add(*end.rss - *begin.rss, &growth);
      growth_ns = std::max(growth_ns, end.time_ns - begin.time_ns);
    }
    if (first == nullptr) first = &history;
    one_cgroup = one_cgroup && history.process.cgroup == first->process.cgroup;
  }
  if (first == nullptr) return line;
  if (rss) line.set_rss_bytes(*rss);
  if (anon) line.set_anon_bytes(*anon);
  if (growth) {
    line.set_rss_growth_bytes(*growth);
    line.set_growth_ns(growth_ns);
  }
  const CgroupFigures& cgroup = first->points.back().cgroup;
  if (one_cgroup && cgroup.current) line.set_cgroup_current_bytes(*cgroup.current);
  if (one_cgroup && cgroup.current && cgroup.limit) line.set_cgroup_limit_bytes(*cgroup.limit);
  const std::map<ProcessId, HeapSum> heap = HeapByProcess(profile, ProcessIds(IdsOf(histories)));
  if (!all_threads || heap.empty() || profile.heap_ns == 0) return line;
  int64_t allocated = 0, freed = 0;
  for (const auto& [id, sum] : heap) {
    allocated = WrappingAdd(allocated, sum.allocated);
    freed = WrappingAdd(freed, sum.freed);
  }
  line.set_allocated_bytes(allocated);
  line.set_freed_bytes(freed);
  line.set_heap_ns(profile.heap_ns);
  return line;
}

void FillMemory(MemoryAnswer answer, v1::GetMemoryResponse* response) {
  const CollectorState state = answer.sources.collector->State();
  response->set_hostname(answer.host.hostname);
  response->set_begin_ns(answer.plan.window.begin_ns + answer.wall_offset_ns);
  response->set_end_ns(answer.plan.window.end_ns + answer.wall_offset_ns);
  response->set_heap_ns(answer.profile.heap_ns);
  const ProcessIds all(IdsOf(answer.histories));
  const std::vector<ProcessId> listed =
      FillProcesses(std::move(answer.histories), answer.profile, state.allocators,
                    answer.wall_offset_ns, response);
  if (answer.plan.max_sites > 0) {
    ScaleBursts(&answer.profile);
    FillSites(answer.profile, all, listed, answer.plan.max_sites, answer.names, response);
  }
  if (const size_t unwatched = answer.sources.memory->unwatched(); unwatched > 0) {
    response->set_processes_unwatched(static_cast<uint32_t>(unwatched));
    response->add_notes(absl::StrCat("the memory of ", unwatched,
                                     " smaller processes is not watched: there are too many; "
                                     "start profd with --target for fewer"));
  }
  if (state.paused) response->add_notes("profd is paused: nothing is read until it gets SIGUSR2");
  const MemoryTimeline& timeline = answer.sources.memory->timeline();
  if (timeline.dropped() > 0 && timeline.dropped_until_ns() >= answer.plan.window.begin_ns) {
    LossCounts losses{};
    losses[static_cast<size_t>(Loss::kMemoryDropped)] = timeline.dropped();
    FillLosses(losses, 0, response->mutable_losses());
  }
}

}  // namespace profd
