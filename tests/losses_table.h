// Every loss in the order of docs/losses.md, whether the accounts of time hold all the same, and
// whether it is usual: then any test may see it.
// tests/suite/check_docs.py compares it with the page, with the code and with what tests saw.
#ifndef PROFD_TESTS_LOSSES_TABLE_H_
#define PROFD_TESTS_LOSSES_TABLE_H_

#include <string_view>

namespace profd {

enum class Exact { kYes, kNearly, kNo };

enum class Usual { kNo, kYes };

struct LossClaim {
  std::string_view name;
  Exact exact;
  Usual usual = Usual::kNo;
};

inline constexpr LossClaim kLossClaims[] = {
    {"counters_full", Exact::kYes},
    {"counters_full_ns", Exact::kYes},
    {"stack_ring_full", Exact::kYes},
    {"exit_ring_full", Exact::kNo},
    {"event_ring_full", Exact::kYes},
    {"thread_storage", Exact::kNo},
    {"switch_unseen", Exact::kYes, Usual::kYes},
    {"torn_walk", Exact::kYes, Usual::kYes},
    {"torn_ledger", Exact::kYes, Usual::kYes},
    {"known_stacks_full", Exact::kYes},
    {"modules_full", Exact::kYes},
    {"heap_counters_full", Exact::kYes},
    {"heap_counters_full_bytes", Exact::kYes},
    {"heap_walk_busy", Exact::kYes},
    {"heap_storage", Exact::kNo},
    {"fault_walk_busy", Exact::kNo},
    {"live_born", Exact::kYes},
    {"live_gone", Exact::kYes},
    {"mapping_lost", Exact::kNo},
    {"mapping_busy", Exact::kNo, Usual::kYes},
    {"malloc_counters_full", Exact::kYes},
    {"cpu_sample_lost", Exact::kYes},
    {"cpu_sample_lost_ns", Exact::kYes},
    {"disk_request_lost", Exact::kYes, Usual::kYes},
    {"waker_lost", Exact::kYes},
    {"waker_lost_ns", Exact::kYes},
    {"long_wait_lost", Exact::kYes, Usual::kYes},
    {"wait_duration_lost", Exact::kYes, Usual::kYes},
    {"object_lost", Exact::kYes},
    {"lock_wait_lost", Exact::kYes},
    {"switch_stack_lost", Exact::kYes},
    {"heap_total_late", Exact::kYes, Usual::kYes},
    {"recursion_misses", Exact::kNearly},
    {"thread_vanished", Exact::kNo},
    {"stack_unknown", Exact::kYes},
    {"store_dropped", Exact::kYes},
    {"module_unreadable", Exact::kYes},
    {"rules_full", Exact::kYes},
    {"drain_failed", Exact::kYes},
    {"memory_dropped", Exact::kYes},
    {"store_damaged", Exact::kYes},
    {"modules_forgotten", Exact::kYes},
};

constexpr bool IsUsualLoss(std::string_view name) {
  for (const LossClaim& claim : kLossClaims) {
    if (claim.name == name) return claim.usual == Usual::kYes;
  }
  return false;
}

}  // namespace profd

#endif  // PROFD_TESTS_LOSSES_TABLE_H_
