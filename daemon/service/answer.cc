#include "daemon/service/answer.h"

#include <sys/utsname.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/profile/estimator.h"
#include "daemon/service/text.h"

namespace profd {
namespace {

constexpr size_t kMaxProcessNames = 16;
// Of one sample: sums of them are no overflow.
constexpr double kMostBytes = 1e15;

v1::Reason ToProto(Reason reason) { return static_cast<v1::Reason>(static_cast<int>(reason) + 1); }
static_assert(v1::REASON_RUNQUEUE == PROFD_REASON_RUNQUEUE + 1 &&
              v1::REASON_OTHER == PROFD_REASON_OTHER + 1 &&
              static_cast<size_t>(v1::Reason_MAX) == kReasonCount);

uint64_t Count(int64_t v) { return v > 0 ? static_cast<uint64_t>(v) : 0; }

v1::ProfileKind ToProto(Kind kind) {
  switch (kind) {
    case Kind::kWait:
      break;
    case Kind::kAlloc:
      return v1::PROFILE_KIND_ALLOC;
    case Kind::kFree:
      return v1::PROFILE_KIND_FREE;
    case Kind::kInuse:
      return v1::PROFILE_KIND_INUSE;
    case Kind::kResident:
      return v1::PROFILE_KIND_RESIDENT;
    case Kind::kMapped:
      return v1::PROFILE_KIND_MAPPED;
    case Kind::kUnmapped:
      return v1::PROFILE_KIND_UNMAPPED;
    case Kind::kReturned:
      return v1::PROFILE_KIND_RETURNED;
  }
  return v1::PROFILE_KIND_OFFCPU;
}

// What the answer is about: of that kind, and for one of the reasons.
bool IsShown(const FetchPlan& plan, const SampleKey& key) {
  return key.kind == plan.kind &&
         (key.kind != Kind::kWait || plan.reasons[static_cast<size_t>(key.reason)]);
}

const HeapDelta& HeapOf(const LedgerDelta& ledger, Kind kind) {
  return kind == Kind::kFree ? ledger.freed : ledger.allocated;
}

// The part of the window in which that kind was watched.
int64_t WatchedNs(const MergedProfile& profile, Kind kind) {
  if (kind == Kind::kResident) return profile.faults_ns;
  return IsMapping(kind) ? profile.mappings_ns : profile.heap_ns;
}

void FillHeader(const HostInfo& host, const FetchPlan& plan, const MergedProfile& profile,
                int64_t wall_offset_ns, v1::Header* header) {
  header->set_kind(ToProto(plan.kind));
  header->set_heap_ns(WatchedNs(profile, plan.kind));
  if (plan.kind == Kind::kAlloc || plan.kind == Kind::kFree) {
    header->set_bursts(Count(profile.bursts));
    header->set_burst_ns(profile.burst_ns);
    header->set_bursts_on_ns(profile.bursts_on_ns);
    if (profile.bursts > 0) {
      header->set_heap_ns(std::max(profile.heap_ns, profile.bursts_on_ns));
    }
  }
  header->set_daemon_version(host.version);
  header->set_hostname(host.hostname);
  header->set_kernel_release(host.kernel_release);
  header->set_requested_begin_ns(profile.requested.begin_ns + wall_offset_ns);
  header->set_requested_end_ns(profile.requested.end_ns + wall_offset_ns);
  if (profile.covered.end_ns > profile.covered.begin_ns) {
    header->set_begin_ns(profile.covered.begin_ns + wall_offset_ns);
    header->set_end_ns(profile.covered.end_ns + wall_offset_ns);
  }
  header->set_books_ns(profile.books_ns);
  header->set_switch_ns(profile.switch_ns);
  header->set_tick_ns(profile.tick_ns);
  std::set<std::pair<int32_t, std::string_view>> processes;
  for (const MergedThread& thread : profile.threads) {
    processes.emplace(thread.info.pid, thread.info.process);
  }
  header->set_process_count(static_cast<uint32_t>(processes.size()));
  for (const auto& [pid, name] : processes) {
    if (header->processes_size() == static_cast<int>(kMaxProcessNames)) break;
    header->add_processes(absl::StrCat(CleanText(name, 256), " (", pid, ")"));
  }
}

void FillThread(const ThreadInfo& info, const EstimatedThread& estimate, v1::Thread* thread) {
  const LedgerDelta& ledger = estimate.ledger;
  thread->set_pid(info.pid);
  thread->set_tid(info.tid);
  thread->set_name(CleanText(info.name, 256));
  thread->set_process(CleanText(info.process, 256));
  thread->set_exited(info.exited);
  thread->set_wall_ns(ledger.wall_ns);
  thread->set_on_cpu_ns(ledger.on_cpu_ns);
  for (size_t r = 0; r < kReasonCount; r++) {
    if (ledger.off_ns[r] == 0 && ledger.waits[r] == 0 && estimate.ticks[r] == 0) continue;
    v1::ReasonTotal* total = thread->add_off();
    total->set_reason(ToProto(static_cast<Reason>(r)));
    total->set_time_ns(ledger.off_ns[r]);
    total->set_waits(Count(ledger.waits[r]));
    total->set_samples(Count(estimate.ticks[r]));
  }
  thread->set_estimated_ns(estimate.estimated_ns);
  thread->set_books_on_cpu_ns(ledger.books_on_cpu_ns);
  thread->set_books_runqueue_ns(ledger.books_runqueue_ns);
  thread->set_voluntary_switches(Count(ledger.voluntary_switches));
  thread->set_involuntary_switches(Count(ledger.involuntary_switches));
  thread->set_minor_faults(Count(ledger.minor_faults));
  thread->set_major_faults(Count(ledger.major_faults));
  thread->set_read_bytes(Count(ledger.read_bytes));
  thread->set_write_bytes(Count(ledger.write_bytes));
}

void FillSample(const EstimatedSample& estimate, uint32_t thread, uint32_t stack,
                v1::Sample* sample) {
  sample->set_thread(thread);
  sample->set_stack(stack);
  if (estimate.key.kind != Kind::kWait) {
    sample->set_bytes(estimate.amount);
    sample->set_error_bytes(estimate.error);
    sample->set_weight_bytes(estimate.weight);
    sample->set_events(Count(estimate.ticks));
    if (IsLevel(estimate.key.kind)) sample->set_growth_bytes(estimate.growth);
    return;
  }
  sample->set_reason(ToProto(estimate.key.reason));
  sample->set_syscall(estimate.key.syscall);
  sample->set_argument(estimate.key.argument);
  sample->set_time_ns(estimate.amount);
  sample->set_error_ns(estimate.error);
  sample->set_weight_ns(estimate.weight);
  sample->set_ticks(Count(estimate.ticks));
}

// Sends threads and samples, a thread always before its samples.
class ThreadSender {
 public:
  ThreadSender(const SendPart& send, const FetchPlan& plan, const MergedProfile& profile)
      : send_(send), bursts_(profile.bursts) {
    for (const MergedThread& thread : profile.threads) {
      const int64_t bytes = UnsampledOf(plan.kind, thread);
      if (bytes == 0) continue;
      int64_t& sum = unsampled_[thread.info.pid];
      sum = WrappingAdd(sum, bytes);
    }
  }

  bool Send(const FetchPlan& plan, const MergedThread& merged, const EstimateBasis& basis,
            const StackDictionary& dictionary) {
    const std::vector<Sample> waits = OfKind(merged.samples, Kind::kWait);
    EstimatedThread estimate = EstimateThread(merged.info.id, merged.ledger, waits, basis);
    v1::Thread* thread = threads_.mutable_threads()->add_threads();
    thread->set_id(++thread_number_);
    FillThread(merged.info, estimate, thread);
    const auto found = unsampled_.find(merged.info.pid);
    const int64_t unsampled = found == unsampled_.end() ? 0 : found->second;
    if (IsLevel(plan.kind)) {
      estimate.samples = EstimateLevels(OfKind(merged.samples, plan.kind), unsampled);
    } else if (IsMapping(plan.kind)) {
      estimate.samples = EstimateMappings(OfKind(merged.samples, plan.kind));
    } else if (plan.kind != Kind::kWait) {
      const HeapDelta& heap = HeapOf(merged.ledger, plan.kind);
      std::vector<Sample> events = OfKind(merged.samples, plan.kind);
      const auto bursts = std::stable_partition(
          events.begin(), events.end(), [](const Sample& s) { return !IsFromBursts(s.key); });
      estimate.samples =
          EstimateHeap(merged.info.id, plan.kind, heap, {events.begin(), bursts}, unsampled);
      for (EstimatedSample& s : EstimateBursts({bursts, events.end()}, heap, bursts_)) {
        estimate.samples.push_back(s);
      }
      if (heap.events != 0 || heap.bytes != 0 || heap.burst_calls != 0) {
        FillHeap(heap, thread->mutable_heap());
      }
    }
    thread_bytes_ += thread->ByteSizeLong() + 8;
    if (thread_bytes_ >= kPartBytes && !Flush()) return false;
    for (const EstimatedSample& s : estimate.samples) {
      if (!IsShown(plan, s.key)) continue;
      v1::Sample* sample = samples_.mutable_samples()->add_samples();
      FillSample(s, thread_number_, dictionary.NumberOf(s.key.stack), sample);
      sample_bytes_ += sample->ByteSizeLong() + 8;
      if (sample_bytes_ >= kPartBytes && !Flush()) return false;
    }
    return true;
  }

  bool Flush() {
    if (thread_bytes_ > 0 && !send_(threads_)) return false;
    if (sample_bytes_ > 0 && !send_(samples_)) return false;
    threads_.Clear();
    samples_.Clear();
    thread_bytes_ = sample_bytes_ = 0;
    return true;
  }

 private:
  static std::vector<Sample> OfKind(const std::vector<Sample>& samples, Kind kind) {
    std::vector<Sample> found;
    std::copy_if(samples.begin(), samples.end(), std::back_inserter(found),
                 [kind](const Sample& s) { return s.key.kind == kind; });
    return found;
  }

  // Bytes of a thread that belong to stacks which nobody saw.
  static int64_t UnsampledOf(Kind kind, const MergedThread& thread) {
    std::vector<Sample> samples = OfKind(thread.samples, kind);
    if (kind == Kind::kAlloc || kind == Kind::kFree) {
      std::erase_if(samples, [](const Sample& s) { return IsFromBursts(s.key); });
      return UnsampledHeap(HeapOf(thread.ledger, kind), samples);
    }
    if (!IsLevel(kind)) return 0;
    int64_t bytes = 0;
    for (const Sample& s : samples) {
      if (s.key.stack == StackId{}) bytes = WrappingAdd(bytes, s.weight);
    }
    return bytes;
  }

  const SendPart& send_;
  const int64_t bursts_;                  // of tracing, in the window
  std::map<int32_t, int64_t> unsampled_;  // bytes that no sample saw, by process
  v1::FetchResponse threads_, samples_;
  size_t thread_bytes_ = 0, sample_bytes_ = 0;
  uint32_t thread_number_ = 0;
};

}  // namespace

HostInfo ThisHost() {
  HostInfo host;
  host.version = PROFD_VERSION;
  utsname names{};
  if (uname(&names) == 0) {
    host.hostname = CleanText(names.nodename, 256);
    host.kernel_release = CleanText(names.release, 256);
  }
  return host;
}

void FillLosses(const LossCounts& losses, int64_t lost_weight_ns,
                google::protobuf::RepeatedPtrField<v1::Loss>* out) {
  for (size_t i = 0; i < losses.size(); i++) {
    // The weights of what found the counters full are fields of their causes.
    if (losses[i] == 0 || i == PROFD_LOSS_COUNTERS_FULL_NS || i == PROFD_LOSS_HEAP_FULL_BYTES) {
      continue;
    }
    const LossDescription& description = DescribeLoss(i);
    v1::Loss* loss = out->Add();
    loss->set_cause(description.cause);
    loss->set_help(description.help);
    loss->set_count(losses[i]);
    if (i == PROFD_LOSS_COUNTERS_FULL) {
      loss->set_weight_ns(lost_weight_ns != 0
                              ? lost_weight_ns
                              : static_cast<int64_t>(losses[PROFD_LOSS_COUNTERS_FULL_NS]));
    }
    if (i == PROFD_LOSS_HEAP_FULL) {
      loss->set_weight_bytes(static_cast<int64_t>(losses[PROFD_LOSS_HEAP_FULL_BYTES]));
    }
  }
}

void FillHeap(const HeapDelta& heap, v1::HeapTotal* out) {
  out->set_bytes(WrappingAdd(heap.bytes, heap.burst_bytes));
  out->set_events(Count(WrappingAdd(heap.events, heap.burst_calls)));
  out->set_weight_bytes(WrappingAdd(heap.seen_bytes, heap.burst_bytes));
  out->set_estimated_bytes(heap.burst_bytes);
  out->set_gaps(Count(heap.gaps));
  out->set_unseen_bytes(heap.unseen_bytes);
  out->set_late_bytes(heap.late_bytes);
}

void FillTargetCost(const TargetCost& cost, v1::TargetCost* out) {
  out->set_target(cost.target);
  out->set_in_path_ns(cost.in_path_ns);
  out->set_tick_cpu_ns(cost.tick_cpu_ns);
  out->set_drain_cpu_ns(cost.drain_cpu_ns);
  out->set_switches(Count(cost.switches));
}

void FillCost(const CollectorCost& cost, v1::Cost* out) {
  out->set_daemon_cpu_ns(cost.daemon_cpu_ns);
  out->set_in_path_ns(cost.in_path_ns);
  out->set_switches(Count(cost.switches));
  out->set_tick_cpu_ns(cost.tick_cpu_ns);
  out->set_drain_cpu_ns(cost.drain_cpu_ns);
  out->set_rules_cpu_ns(cost.rules_cpu_ns);
  out->set_answers_cpu_ns(cost.answers_cpu_ns);
  out->set_heap_in_path_ns(cost.heap_in_path_ns);
  out->set_heap_events(Count(cost.heap_events));
  out->set_fault_in_path_ns(cost.fault_in_path_ns);
  out->set_faults(Count(cost.faults));
  out->set_mapping_in_path_ns(cost.map_in_path_ns);
  out->set_mapping_calls(Count(cost.map_calls));
  out->set_memory_cpu_ns(cost.memory_cpu_ns);
  out->set_burst_in_path_ns(cost.burst_in_path_ns);
  out->set_burst_calls(Count(cost.burst_calls));
  for (const TargetCost& target : cost.targets) FillTargetCost(target, out->add_targets());
}

void ScaleBursts(MergedProfile* profile) {
  if (profile->burst_span_ns <= 0 || profile->bursts_on_ns <= 0) return;
  const double scale =
      static_cast<double>(profile->bursts_on_ns) / static_cast<double>(profile->burst_span_ns);
  const auto scaled = [scale](int64_t bytes) {
    return static_cast<int64_t>(
        std::llround(std::clamp(scale * static_cast<double>(bytes), 0.0, kMostBytes)));
  };
  for (MergedThread& thread : profile->threads) {
    HeapDelta& allocated = thread.ledger.allocated;
    HeapDelta& freed = thread.ledger.freed;
    allocated.burst_doubt = scaled(allocated.burst_doubt);
    freed.burst_doubt = scaled(freed.burst_doubt);
    // The totals are the sums, to the byte.
    allocated.burst_bytes = freed.burst_bytes = 0;
    for (Sample& sample : thread.samples) {
      if (!IsFromBursts(sample.key)) continue;
      sample.weight = scaled(sample.weight);
      sample.squares *= scale * scale;
      int64_t& total = sample.key.kind == Kind::kAlloc ? allocated.burst_bytes : freed.burst_bytes;
      total = WrappingAdd(total, sample.weight);
    }
  }
}

bool SendAnswer(const HostInfo& host, const FetchPlan& plan, const MergedProfile& profile,
                const v1::MemoryLine& memory, int64_t wall_offset_ns, FrameNames* names,
                const SendPart& send) {
  v1::FetchResponse part;
  FillHeader(host, plan, profile, wall_offset_ns, part.mutable_header());
  if (!send(part)) return false;

  StackDictionary dictionary(profile.stacks);
  double weight = 0, complete_weight = 0;
  uint64_t samples = 0;
  HeapDelta heap;
  const bool has_totals = plan.kind == Kind::kAlloc || plan.kind == Kind::kFree;
  for (const MergedThread& thread : profile.threads) {
    if (has_totals) AddHeap(HeapOf(thread.ledger, plan.kind), &heap);
    for (const Sample& sample : thread.samples) {
      if (!IsShown(plan, sample.key)) continue;
      dictionary.Add(sample.key.stack);
      const auto w = static_cast<double>(std::max<int64_t>(sample.weight, 0));
      weight += w;
      if (dictionary.Complete(sample.key.stack)) complete_weight += w;
      samples += Count(sample.ticks);
    }
  }
  if (!dictionary.Send(names, send)) return false;

  const EstimateBasis basis = {.ledger = profile.books_ns > 0 || profile.switch_ns > 0,
                               .ticks = profile.ticks};
  ThreadSender threads(send, plan, profile);
  for (const MergedThread& thread : profile.threads) {
    if (!threads.Send(plan, thread, basis, dictionary)) return false;
  }
  if (!threads.Flush()) return false;

  part.Clear();
  v1::Trailer* trailer = part.mutable_trailer();
  trailer->set_ticks(Count(profile.ticks));
  trailer->set_ticks_missed(Count(profile.ticks_missed));
  trailer->set_tick_interval_ns(profile.tick_interval_ns);
  trailer->set_samples(samples);
  trailer->set_walks(Count(profile.walks));
  trailer->set_torn_walks(Count(profile.torn_walks));
  // Without samples nothing is incomplete.
  trailer->set_complete_share(weight > 0 ? complete_weight / weight : 1);
  if (has_totals) FillHeap(heap, trailer->mutable_heap());
  if (memory.processes() > 0) *trailer->mutable_memory() = memory;
  FillLosses(profile.losses, profile.lost_weight_ns, trailer->mutable_losses());
  FillCost(profile.cost, trailer->mutable_cost());
  trailer->mutable_cost()->set_duration_ns(profile.covered.end_ns - profile.covered.begin_ns);
  return send(part);
}

}  // namespace profd
