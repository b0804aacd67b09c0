// The numbers of a slice's header and of its cost, beside their fields in the message. A new number
// is a line here, one in the message and one in slice.cc if it is a sum.
#ifndef PROFD_DAEMON_STORE_HEADER_FIELDS_H_
#define PROFD_DAEMON_STORE_HEADER_FIELDS_H_

#include <cstdint>

#include "daemon/profile/cost.h"
#include "daemon/store/slice.h"
#include "profd/store/segment.pb.h"

namespace profd {

template <typename Struct, typename Message>
struct NumberField {
  int64_t Struct::* member;
  int64_t (Message::*get)() const;
  void (Message::*set)(int64_t);
};

inline constexpr NumberField<SliceHeader, store::SliceHeader> kHeaderFields[] = {
    {&SliceHeader::books_ns, &store::SliceHeader::books_ns, &store::SliceHeader::set_books_ns},
    {&SliceHeader::switch_ns, &store::SliceHeader::switch_ns, &store::SliceHeader::set_switch_ns},
    {&SliceHeader::tick_ns, &store::SliceHeader::tick_ns, &store::SliceHeader::set_tick_ns},
    {&SliceHeader::heap_ns, &store::SliceHeader::heap_ns, &store::SliceHeader::set_heap_ns},
    {&SliceHeader::faults_ns, &store::SliceHeader::faults_ns, &store::SliceHeader::set_faults_ns},
    {&SliceHeader::mappings_ns, &store::SliceHeader::mappings_ns,
     &store::SliceHeader::set_mappings_ns},
    {&SliceHeader::cpu_ns, &store::SliceHeader::cpu_ns, &store::SliceHeader::set_cpu_ns},
    {&SliceHeader::disk_ns, &store::SliceHeader::disk_ns, &store::SliceHeader::set_disk_ns},
    {&SliceHeader::wakers_ns, &store::SliceHeader::wakers_ns, &store::SliceHeader::set_wakers_ns},
    {&SliceHeader::switch_stacks_ns, &store::SliceHeader::switch_stacks_ns,
     &store::SliceHeader::set_switch_stacks_ns},
    {&SliceHeader::bursts_on_ns, &store::SliceHeader::bursts_on_ns,
     &store::SliceHeader::set_bursts_on_ns},
    {&SliceHeader::bursts, &store::SliceHeader::bursts, &store::SliceHeader::set_bursts},
    {&SliceHeader::burst_ns, &store::SliceHeader::burst_ns, &store::SliceHeader::set_burst_ns},
    {&SliceHeader::burst_span_ns, &store::SliceHeader::burst_span_ns,
     &store::SliceHeader::set_burst_span_ns},
    {&SliceHeader::tick_interval_ns, &store::SliceHeader::tick_interval_ns,
     &store::SliceHeader::set_tick_interval_ns},
    {&SliceHeader::ticks, &store::SliceHeader::ticks, &store::SliceHeader::set_ticks},
    {&SliceHeader::ticks_missed, &store::SliceHeader::ticks_missed,
     &store::SliceHeader::set_ticks_missed},
    {&SliceHeader::walks, &store::SliceHeader::walks, &store::SliceHeader::set_walks},
    {&SliceHeader::torn_walks, &store::SliceHeader::torn_walks,
     &store::SliceHeader::set_torn_walks},
    {&SliceHeader::lost_weight_ns, &store::SliceHeader::lost_weight_ns,
     &store::SliceHeader::set_lost_weight_ns},
    {&SliceHeader::drains, &store::SliceHeader::drains, &store::SliceHeader::set_drains},
    {&SliceHeader::folded_threads, &store::SliceHeader::folded_threads,
     &store::SliceHeader::set_folded_threads},
    {&SliceHeader::long_rest_ns, &store::SliceHeader::long_rest_ns,
     &store::SliceHeader::set_long_rest_ns},
    {&SliceHeader::long_work_ns, &store::SliceHeader::long_work_ns,
     &store::SliceHeader::set_long_work_ns},
};

inline constexpr NumberField<CollectorCost, store::Cost> kCostFields[] = {
    {&CollectorCost::daemon_cpu_ns, &store::Cost::daemon_cpu_ns, &store::Cost::set_daemon_cpu_ns},
    {&CollectorCost::tick_cpu_ns, &store::Cost::tick_cpu_ns, &store::Cost::set_tick_cpu_ns},
    {&CollectorCost::drain_cpu_ns, &store::Cost::drain_cpu_ns, &store::Cost::set_drain_cpu_ns},
    {&CollectorCost::rules_cpu_ns, &store::Cost::rules_cpu_ns, &store::Cost::set_rules_cpu_ns},
    {&CollectorCost::answers_cpu_ns, &store::Cost::answers_cpu_ns,
     &store::Cost::set_answers_cpu_ns},
    {&CollectorCost::in_path_ns, &store::Cost::in_path_ns, &store::Cost::set_in_path_ns},
    {&CollectorCost::switches, &store::Cost::switches, &store::Cost::set_switches},
    {&CollectorCost::heap_in_path_ns, &store::Cost::heap_in_path_ns,
     &store::Cost::set_heap_in_path_ns},
    {&CollectorCost::heap_events, &store::Cost::heap_events, &store::Cost::set_heap_events},
    {&CollectorCost::fault_in_path_ns, &store::Cost::fault_in_path_ns,
     &store::Cost::set_fault_in_path_ns},
    {&CollectorCost::faults, &store::Cost::faults, &store::Cost::set_faults},
    {&CollectorCost::map_in_path_ns, &store::Cost::map_in_path_ns,
     &store::Cost::set_map_in_path_ns},
    {&CollectorCost::map_calls, &store::Cost::map_calls, &store::Cost::set_map_calls},
    {&CollectorCost::cpu_in_path_ns, &store::Cost::cpu_in_path_ns,
     &store::Cost::set_cpu_in_path_ns},
    {&CollectorCost::cpu_samples, &store::Cost::cpu_samples, &store::Cost::set_cpu_samples},
    {&CollectorCost::disk_in_path_ns, &store::Cost::disk_in_path_ns,
     &store::Cost::set_disk_in_path_ns},
    {&CollectorCost::disk_requests, &store::Cost::disk_requests, &store::Cost::set_disk_requests},
    {&CollectorCost::waker_in_path_ns, &store::Cost::waker_in_path_ns,
     &store::Cost::set_waker_in_path_ns},
    {&CollectorCost::wakes, &store::Cost::wakes, &store::Cost::set_wakes},
    {&CollectorCost::switch_stack_in_path_ns, &store::Cost::switch_stack_in_path_ns,
     &store::Cost::set_switch_stack_in_path_ns},
    {&CollectorCost::switch_stacks, &store::Cost::switch_stacks, &store::Cost::set_switch_stacks},
    {&CollectorCost::memory_cpu_ns, &store::Cost::memory_cpu_ns, &store::Cost::set_memory_cpu_ns},
    {&CollectorCost::burst_in_path_ns, &store::Cost::burst_in_path_ns,
     &store::Cost::set_burst_in_path_ns},
    {&CollectorCost::burst_calls, &store::Cost::burst_calls, &store::Cost::set_burst_calls},
};

inline constexpr NumberField<TargetCost, store::TargetCost> kTargetCostFields[] = {
    {&TargetCost::in_path_ns, &store::TargetCost::in_path_ns, &store::TargetCost::set_in_path_ns},
    {&TargetCost::tick_cpu_ns, &store::TargetCost::tick_cpu_ns,
     &store::TargetCost::set_tick_cpu_ns},
    {&TargetCost::drain_cpu_ns, &store::TargetCost::drain_cpu_ns,
     &store::TargetCost::set_drain_cpu_ns},
    {&TargetCost::switches, &store::TargetCost::switches, &store::TargetCost::set_switches},
};

template <typename Struct, typename Message, size_t N>
void WriteNumbers(const NumberField<Struct, Message> (&fields)[N], const Struct& from,
                  Message* to) {
  for (const auto& field : fields) {
    if (from.*field.member != 0) (to->*field.set)(from.*field.member);
  }
}

template <typename Struct, typename Message, size_t N>
void ReadNumbers(const NumberField<Struct, Message> (&fields)[N], const Message& from, Struct* to) {
  for (const auto& field : fields) to->*field.member = (from.*field.get)();
}

}  // namespace profd

#endif  // PROFD_DAEMON_STORE_HEADER_FIELDS_H_
