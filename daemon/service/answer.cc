#include "daemon/service/answer.h"

#include <sys/utsname.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "daemon/base/wrapping.h"
#include "daemon/profile/identity.h"
#include "daemon/profile/waker_estimate.h"
#include "daemon/service/disk_use.h"
#include "daemon/service/estimates.h"
#include "daemon/service/idle.h"
#include "daemon/service/lock_table.h"
#include "daemon/service/longest.h"
#include "daemon/service/memory_answer.h"
#include "daemon/service/messages.h"
#include "daemon/service/name_ends.h"
#include "daemon/service/name_shares.h"
#include "daemon/service/named_stacks.h"
#include "daemon/service/object_text.h"
#include "daemon/service/occupants.h"
#include "daemon/service/process_ids.h"
#include "daemon/service/sample_sink.h"
#include "daemon/service/sync_use.h"
#include "daemon/service/tables.h"
#include "daemon/service/text.h"
#include "daemon/service/thread_totals.h"
#include "daemon/symbolize/kernel_image.h"

namespace profd {
namespace {

v1::ErrorFormula ToProto(ErrorFormula formula) {
  switch (formula) {
    case ErrorFormula::kLedgerShare:
      return v1::ERROR_FORMULA_LEDGER_SHARE;
    case ErrorFormula::kAllocatorShare:
      return v1::ERROR_FORMULA_ALLOCATOR_SHARE;
    case ErrorFormula::kPoisson:
      return v1::ERROR_FORMULA_POISSON;
    case ErrorFormula::kBinomial:
      return v1::ERROR_FORMULA_BINOMIAL;
    case ErrorFormula::kExact:
      return v1::ERROR_FORMULA_EXACT;
    case ErrorFormula::kCountShare:
      return v1::ERROR_FORMULA_COUNT_SHARE;
  }
  return v1::ERROR_FORMULA_UNSPECIFIED;
}

// The part of the window in which samples of that type were watched.
int64_t WatchedNs(const MergedProfile& profile, const SampleTypeInfo& type) {
  switch (type.layer) {
    case Layer::kTick:
      return profile.tick_ns;
    case Layer::kAllocations:
      return type.HasTotals() && profile.bursts > 0
                 ? std::max(profile.heap_ns, profile.bursts_on_ns)
                 : profile.heap_ns;
    case Layer::kFaults:
      return profile.faults_ns;
    case Layer::kMappings:
      return profile.mappings_ns;
    case Layer::kCpu:
      return profile.cpu_ns;
    case Layer::kDisk:
      return profile.disk_ns;
    case Layer::kTickAndCpu:
      return std::min(profile.tick_ns, profile.cpu_ns);
    case Layer::kTickAndWakers:
      return std::min(profile.tick_ns, profile.wakers_ns);
    case Layer::kSwitchStacks:
      return profile.switch_stacks_ns;
  }
  return 0;
}

void FillCoverage(const MergedProfile& profile, int64_t wall_offset_ns, v1::Coverage* coverage) {
  coverage->set_requested_begin_ns(profile.requested.begin_ns + wall_offset_ns);
  coverage->set_requested_end_ns(profile.requested.end_ns + wall_offset_ns);
  if (profile.covered.end_ns > profile.covered.begin_ns) {
    coverage->set_begin_ns(profile.covered.begin_ns + wall_offset_ns);
    coverage->set_end_ns(profile.covered.end_ns + wall_offset_ns);
  }
  coverage->set_books_ns(profile.books_ns);
  coverage->set_switch_ns(profile.switch_ns);
  coverage->set_tick_ns(profile.tick_ns);
  coverage->set_bursts(Count(profile.bursts));
  coverage->set_burst_ns(profile.burst_ns);
  coverage->set_bursts_on_ns(profile.bursts_on_ns);
  coverage->set_ticks(Count(profile.ticks));
  coverage->set_ticks_missed(Count(profile.ticks_missed));
  coverage->set_tick_interval_ns(profile.tick_interval_ns);
  coverage->set_walks(Count(profile.walks));
  coverage->set_torn_walks(Count(profile.torn_walks));
  coverage->set_resolution_ns(profile.coarsest_ns);
  coverage->set_folded_threads(Count(profile.folded_threads));
  int64_t processes = 0;
  for (const MergedThread& thread : profile.threads) {
    processes = WrappingAdd(processes, thread.ledger.folded_processes());
  }
  coverage->set_folded_processes(Count(processes));
}

void FillSampleType(const FetchPlan& plan, const SampleTypeInfo& type, const MergedProfile& profile,
                    const NamedStacks& stacks, v1::SampleType* out) {
  double weight = 0, complete_weight = 0;
  uint64_t count = 0;
  HeapDelta heap;
  for (const MergedThread& thread : profile.threads) {
    if (type.HasTotals()) AddHeap(HeapOf(thread.ledger, type.kind), &heap);
    for (const Sample& sample : thread.samples) {
      if (!type.Covers(sample.key.kind) || !plan.Shows(type, sample.key)) continue;
      const auto w = static_cast<double>(std::max<int64_t>(sample.weight, 0));
      weight += w;
      if (stacks.IsComplete(sample.key.stack)) complete_weight += w;
      count += Count(sample.ticks);
    }
  }
  out->set_name(std::string(type.name));
  out->set_unit(std::string(UnitName(type.unit)));
  out->set_level(type.level);
  out->set_error_formula(ToProto(type.formula));
  out->set_count_unit(std::string(type.count_unit));
  out->set_watched_ns(WatchedNs(profile, type));
  out->set_count(count);
  if (type.kind == Kind::kWait) {
    out->set_period(profile.tick_interval_ns);
  } else if (count > 0) {
    out->set_period(static_cast<int64_t>(std::min(weight / static_cast<double>(count), 9e18)));
  }
  // Without samples nothing is incomplete.
  out->set_complete_share(weight > 0 ? complete_weight / weight : 1);
  if (type.HasTotals()) FillHeap(heap, out->mutable_total());
}

// Processes, in the order of their first threads.
class ProcessTable {
 public:
  ProcessTable(PartWriter* parts, const MergedProfile& profile,
               const std::vector<ProcessHistory>& histories, int64_t wall_offset_ns)
      : parts_(parts), ids_(WithKnownStart(profile, histories)), wall_offset_ns_(wall_offset_ns) {
    for (const ProcessHistory& history : histories) {
      known_[{history.process.pid, history.process.start_ns}] = &history;
    }
  }

  uint32_t IndexOf(const ThreadInfo& info) {
    // Of a thread that ended before it was read only the PID is known.
    const ProcessId id = ids_.Of(info);
    const auto [it, fresh] =
        indexes_.try_emplace({id, info.process}, static_cast<uint32_t>(indexes_.size()));
    if (!fresh) return it->second;
    v1::Process* process = parts_->part().add_processes();
    process->set_pid(info.pid);
    process->set_name(CleanText(info.process, kMaxNameText));
    if (id.start_ns != 0) process->set_started_ns(id.start_ns + boot_to_wall_ns_);
    if (const auto known = known_.find(id); known != known_.end()) {
      const WatchedProcess& watched = known->second->process;
      FillQuota(*known->second, wall_offset_ns_, process);
      if (watched.cgroup.version != 0) {
        process->set_cgroup(CleanText(watched.cgroup.path, kMaxPathText));
        process->set_container_id(ContainerIdOf(watched.cgroup.path));
      }
      process->set_command_line(CleanText(watched.command, kMaxPathText));
    }
    parts_->Added(*process);
    return it->second;
  }

 private:
  static std::vector<ProcessId> WithKnownStart(const MergedProfile& profile,
                                               const std::vector<ProcessHistory>& histories) {
    std::vector<ProcessId> ids = IdsOf(histories);
    for (const MergedThread& thread : profile.threads) {
      const ProcessId id = ProcessIdOf(*thread.info);
      if (id.start_ns != 0) ids.push_back(id);
    }
    return ids;
  }

  PartWriter* const parts_;
  const ProcessIds ids_;
  const int64_t wall_offset_ns_;
  const int64_t boot_to_wall_ns_ = WallNs() - BootNs();
  std::map<ProcessId, const ProcessHistory*> known_;
  std::map<std::pair<ProcessId, std::string>, uint32_t> indexes_;
};

bool IsKnown(const HeapDelta& heap) {
  return heap.events != 0 || heap.bytes != 0 || heap.burst_calls != 0;
}

// One answer on its way.
class Sender {
 public:
  Sender(const FetchPlan& plan, const AnswerSources& sources, uint32_t window, const SendPart& send)
      : plan_(plan),
        sources_(sources),
        profile_(sources.profile),
        parts_(send, window),
        stacks_(sources.profile.stacks, &sources.profile.modules),
        objects_(sources.profile.stacks),
        longest_(plan, sources.profile) {}

  bool Send() {
    if (plan_.longest) {
      longest_.AddStacks(&stacks_);
    } else {
      AddStacks();
    }
    NameOtherEnds(plan_, profile_, sources_.ends, &objects_);
    SendHead();
    stacks_.Name(sources_.names, plan_.lines);
    Tables tables(&parts_);
    tables.AddStacks(stacks_);
    if (plan_.longest) {
      longest_.Choose(
          [this](const ThreadInfo& thread, const SampleKey& key) { return IdleOf(thread, key); });
    }
    SendThreads(&tables);
    longest_.Send(stacks_, &objects_, sources_.wall_offset_ns, &tables, &parts_);
    SendEnd();
    return parts_.Finish();
  }

 private:
  void AddStacks() {
    for (const MergedThread& thread : profile_.threads) {
      const ProcessId process = ProcessIdOf(*thread.info);
      for (const Sample& sample : thread.samples) {
        if (sample.key.kind == Kind::kWaker) continue;
        const bool sync = sample.key.kind == Kind::kSync && plan_.TellsSyncs();
        if (plan_.Shows(sample.key) || TellsIdleness(sample.key) || sync) {
          stacks_.Add(sample.key.stack, process);
        }
      }
      if (plan_.Asks(Kind::kWaker)) AddWakers(thread);
    }
  }

  void AddWakers(const MergedThread& thread) {
    const ProcessId process = ProcessIdOf(*thread.info);
    for (const Sample& sample : thread.samples) {
      if (!plan_.Shows(DescribeSampleType(Kind::kWaker), sample.key)) continue;
      if (sample.key.kind == Kind::kWaker) {
        stacks_.AddWoken(WaiterOf(sample.key), process, sample.key.stack);
      } else {
        const bool runnable = sample.key.reason == Reason::kRunQueue;
        stacks_.AddWoken(sample.key.stack, process, runnable ? kNoWaker : kWakerUnknown);
      }
    }
  }

  // The ledger of waits says how much of it is idle, whatever reasons were asked for.
  bool TellsIdleness(const SampleKey& key) const {
    return key.kind == Kind::kWait && plan_.AsksWaits() &&
           (key.reason == Reason::kLock || key.reason == Reason::kOther);
  }

  // What a reader has to know before it can do anything with what follows.
  void SendHead() {
    v1::Profile& part = parts_.part();
    FillHost(sources_.host, part.mutable_host());
    FillCoverage(profile_, sources_.wall_offset_ns, part.mutable_coverage());
    for (const SampleTypeInfo* type : plan_.types) {
      FillSampleType(plan_, *type, profile_, stacks_, part.add_sample_types());
    }
    for (const v1::GroupKey key : plan_.group_by) part.add_group_by(key);
    parts_.Flush();
  }

  void SendThreads(Tables* tables) {
    const Estimates estimates(profile_, plan_.types);
    const Grouping grouping(plan_.group_by, profile_, stacks_);
    SampleSink sink({.plan = plan_,
                     .stacks = stacks_,
                     .grouping = grouping,
                     .objects = &objects_,
                     .disks = &disk_names_},
                    tables, &parts_);
    ProcessTable processes(&parts_, profile_, sources_.processes, sources_.wall_offset_ns);
    if (plan_.Asks(Kind::kLocks)) locks_.emplace(profile_, stacks_, sources_.names);
    uint32_t sent = 0;
    for (size_t i = 0; i < profile_.threads.size() && !parts_.client_left(); i++) {
      if (plan_.longest && !longest_.Shows(i)) continue;
      if (plan_.longest) longest_.SetIndex(i, sent);
      sent++;
      const MergedThread& merged = profile_.threads[i];
      const uint32_t process = processes.IndexOf(*merged.info);
      const EstimatedThread waits = estimates.Waits(merged);
      v1::Thread* thread = parts_.part().add_threads();
      thread->set_process(process);
      FillThread(merged, waits, thread);
      thread->set_group(grouping.ThreadName(static_cast<uint32_t>(i)));
      if (plan_.AsksWaits() && !plan_.longest) thread->set_idle_ns(IdleNs(*merged.info, waits));
      for (const SampleTypeInfo* type : plan_.types) {
        if (!type->HasTotals()) continue;
        const HeapDelta& heap = HeapOf(merged.ledger, type->kind);
        if (!IsKnown(heap)) continue;
        FillHeap(heap,
                 type->kind == Kind::kFree ? thread->mutable_freed() : thread->mutable_allocated());
      }
      parts_.Added(*thread);
      if (plan_.longest) continue;
      if (plan_.AsksWaits()) occupants_.Add(waits);
      sink.BeginThread(static_cast<uint32_t>(i), ProcessIdOf(*merged.info));
      for (size_t t = 0; t < plan_.types.size(); t++) {
        const SampleTypeInfo& type = *plan_.types[t];
        if (type.kind == Kind::kLocks) {
          AddLocks(merged, process, waits, t, &sink);
          continue;
        }
        for (const EstimatedSample& s : estimates.Of(merged, waits, type)) {
          if (plan_.Shows(type, s.key)) sink.Add(t, s, IdleOf(*merged.info, s.key));
        }
      }
      sink.EndThread();
    }
    sink.Finish();
  }

  // The waits for locks of a thread, of the plan's type `type`.
  void AddLocks(const MergedThread& thread, uint32_t process, const EstimatedThread& waits,
                size_t type, SampleSink* sink) {
    std::vector<LockTable::Wait> of_locks;
    for (const EstimatedSample& s : waits.samples) {
      if (!plan_.Shows(*plan_.types[type], s.key)) continue;
      of_locks.push_back({locks_->Of(*thread.info, s.key, IdleOf(*thread.info, s.key)), &s});
      sink->AddLock(type, s, of_locks.back().lock);
    }
    locks_->AddThread(thread, process, of_locks, waits);
  }

  int64_t IdleNs(const ThreadInfo& thread, const EstimatedThread& waits) {
    int64_t idle_ns = 0;
    for (const EstimatedSample& s : waits.samples) {
      if (!IdleOf(thread, s.key).empty()) idle_ns = WrappingAdd(idle_ns, s.amount);
    }
    return idle_ns;
  }

  std::string_view IdleOf(const ThreadInfo& thread, const SampleKey& key) {
    if (key.kind != Kind::kWait && key.kind != Kind::kWaker) return {};
    const StackId waiter = key.kind == Kind::kWaker ? WaiterOf(key) : key.stack;
    const uint32_t number = stacks_.NumberOf(waiter, ProcessIdOf(thread));
    const NamedStack& stack = stacks_.stacks()[number];
    return IdleOfWait(key.reason, stack.idle, thread.process, thread.name,
                      objects_.TurnOf(ObjectOf(key)));
  }

  void SendEnd() {
    v1::Profile& part = parts_.part();
    if (!plan_.longest) FillNameShares(plan_, profile_, stacks_, &part);
    if (plan_.lines != LineWish::kNone) stacks_.FillLines(part.mutable_source_lines());
    if (plan_.AsksDisk()) FillDisks(profile_, disk_names_, &part);
    if (plan_.TellsSyncs()) FillSyncs(profile_, stacks_, objects_, &part);
    if (locks_) locks_->Fill(&part);
    if (plan_.AsksWaits() && !plan_.longest) occupants_.Fill(&part);
    FillLosses(profile_.losses, profile_.lost_weight_ns, part.mutable_losses());
    FillCost(profile_.cost, part.mutable_cost());
    part.mutable_cost()->set_duration_ns(profile_.covered.end_ns - profile_.covered.begin_ns);
    if (sources_.memory.processes() > 0) *part.mutable_memory() = sources_.memory;
  }

  const FetchPlan& plan_;
  const AnswerSources& sources_;
  const MergedProfile& profile_;
  PartWriter parts_;
  NamedStacks stacks_;
  WaitObjects objects_;
  Occupants occupants_{&objects_};
  LongestWaits longest_;
  DiskNames disk_names_;
  std::optional<LockTable> locks_;  // with the type "locks"
};

}  // namespace

HostInfo ThisHost() {
  HostInfo host;
  host.version = PROFD_VERSION;
  utsname names{};
  if (uname(&names) == 0) {
    host.hostname = CleanText(names.nodename, kMaxNameText);
    host.kernel_release = CleanText(names.release, kMaxNameText);
  }
  host.boot_id = CleanText(symbolize::ReadBootId(), kMaxNameText);
  return host;
}

void FillHost(const HostInfo& host, v1::Host* message) {
  message->set_daemon_version(host.version);
  message->set_hostname(host.hostname);
  message->set_kernel_release(host.kernel_release);
  message->set_boot_id(host.boot_id);
}

bool SendAnswer(const FetchPlan& plan, const AnswerSources& sources, uint32_t window,
                const SendPart& send) {
  return Sender(plan, sources, window, send).Send();
}

}  // namespace profd
