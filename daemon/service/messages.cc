#include "daemon/service/messages.h"

#include "daemon/base/wrapping.h"

namespace profd {

// The values of the API begin at 1 and have running itself among them.
v1::Reason ToProto(Reason reason) {
  const int value = static_cast<int>(reason) + 1;
  return static_cast<v1::Reason>(value < v1::REASON_ON_CPU ? value : value + 1);
}
static_assert(v1::REASON_RUNQUEUE == PROFD_REASON_RUNQUEUE + 1 &&
              v1::REASON_OTHER == PROFD_REASON_OTHER + 1 &&
              v1::REASON_STOPPED == PROFD_REASON_STOPPED + 2 &&
              v1::REASON_FROZEN == PROFD_REASON_FROZEN + 2 &&
              static_cast<size_t>(v1::Reason_MAX) == kReasonCount + 1);

std::optional<Reason> FromProto(int reason) {
  if (reason < 1 || reason > v1::Reason_MAX || reason == v1::REASON_ON_CPU) return std::nullopt;
  return static_cast<Reason>(reason < v1::REASON_ON_CPU ? reason - 1 : reason - 2);
}

v1::NameSource ToProto(NameSource source) {
  switch (source) {
    case NameSource::kNone:
      return v1::NAME_SOURCE_NONE;
    case NameSource::kSymbols:
      return v1::NAME_SOURCE_SYMBOLS;
    case NameSource::kDynamicSymbols:
      return v1::NAME_SOURCE_DYNAMIC_SYMBOLS;
    case NameSource::kDebugFile:
      return v1::NAME_SOURCE_DEBUG_FILE;
    case NameSource::kPlt:
      return v1::NAME_SOURCE_PLT;
    case NameSource::kBounds:
      return v1::NAME_SOURCE_BOUNDS;
    case NameSource::kInferred:
      return v1::NAME_SOURCE_INFERRED;
    case NameSource::kPerfMap:
      return v1::NAME_SOURCE_PERF_MAP;
    case NameSource::kDebugInfo:
      return v1::NAME_SOURCE_DEBUG_INFO;
    case NameSource::kKallsyms:
      return v1::NAME_SOURCE_KALLSYMS;
    case NameSource::kProfd:
      return v1::NAME_SOURCE_PROFD;
    case NameSource::kRtti:
      return v1::NAME_SOURCE_RTTI;
  }
  return v1::NAME_SOURCE_UNSPECIFIED;
}

void FillLosses(const LossCounts& losses, int64_t lost_weight_ns,
                google::protobuf::RepeatedPtrField<v1::Loss>* out) {
  for (size_t i = 0; i < losses.size(); i++) {
    // The weights of what found the counters full are fields of their causes.
    if (losses[i] == 0 || i == PROFD_LOSS_COUNTERS_FULL_NS || i == PROFD_LOSS_HEAP_FULL_BYTES ||
        i == PROFD_LOSS_CPU_LOST_NS || i == PROFD_LOSS_WAKER_LOST_NS) {
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
    if (i == PROFD_LOSS_CPU_LOST) {
      loss->set_weight_ns(static_cast<int64_t>(losses[PROFD_LOSS_CPU_LOST_NS]));
    }
    if (i == PROFD_LOSS_WAKER_LOST) {
      loss->set_weight_ns(static_cast<int64_t>(losses[PROFD_LOSS_WAKER_LOST_NS]));
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
  out->set_cpu_in_path_ns(cost.cpu_in_path_ns);
  out->set_cpu_samples(Count(cost.cpu_samples));
  out->set_disk_in_path_ns(cost.disk_in_path_ns);
  out->set_disk_requests(Count(cost.disk_requests));
  out->set_waker_in_path_ns(cost.waker_in_path_ns);
  out->set_wakes(Count(cost.wakes));
  out->set_switch_stack_in_path_ns(cost.switch_stack_in_path_ns);
  out->set_switch_stacks(Count(cost.switch_stacks));
  out->set_memory_cpu_ns(cost.memory_cpu_ns);
  out->set_burst_in_path_ns(cost.burst_in_path_ns);
  out->set_burst_calls(Count(cost.burst_calls));
  for (const TargetCost& target : cost.targets) FillTargetCost(target, out->add_targets());
}

}  // namespace profd
