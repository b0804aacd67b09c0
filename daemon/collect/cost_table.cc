#include "daemon/collect/cost_table.h"

#include <string_view>

namespace profd {
namespace {

// Where an account is told of in answers.
struct Field {
  std::string_view account;
  int64_t CollectorCost::* ns;
  int64_t CollectorCost::* events;  // null: not told
};

constexpr Field kFields[] = {
    {"tick", &CollectorCost::tick_cpu_ns, nullptr},
    {"drain", &CollectorCost::drain_cpu_ns, nullptr},
    {"look", &CollectorCost::drain_cpu_ns, nullptr},
    {"rules", &CollectorCost::rules_cpu_ns, nullptr},
    {"answers", &CollectorCost::answers_cpu_ns, nullptr},
    {"memory", &CollectorCost::memory_cpu_ns, nullptr},
    {"jemalloc", &CollectorCost::heap_in_path_ns, &CollectorCost::heap_events},
    {"fault", &CollectorCost::fault_in_path_ns, &CollectorCost::faults},
    {"mapping", &CollectorCost::map_in_path_ns, &CollectorCost::map_calls},
    {"cpu", &CollectorCost::cpu_in_path_ns, &CollectorCost::cpu_samples},
    {"disk", &CollectorCost::disk_in_path_ns, &CollectorCost::disk_requests},
    {"waker", &CollectorCost::waker_in_path_ns, &CollectorCost::wakes},
    {"switch_stack", &CollectorCost::switch_stack_in_path_ns, &CollectorCost::switch_stacks},
    {"malloc", &CollectorCost::burst_in_path_ns, &CollectorCost::burst_calls},
};

}  // namespace

std::vector<CostRow> CostsOf(const std::vector<std::unique_ptr<Source>>& sources) {
  std::vector<CostRow> rows;
  for (const auto& source : sources) source->Costs(rows);
  return rows;
}

CollectorCost SumCosts(const std::vector<CostRow>& rows) {
  CollectorCost cost;
  for (const CostRow& row : rows) {
    if (row.payer == Payer::kTarget) cost.in_path_ns += row.ns;
    for (const Field& field : kFields) {
      if (field.account != row.account) continue;
      cost.*field.ns += row.ns;
      if (field.events != nullptr) cost.*field.events += row.events;
    }
  }
  return cost;
}

int64_t UnplannedInPathNs(const std::vector<CostRow>& rows) {
  int64_t ns = 0;
  for (const CostRow& row : rows) {
    if (row.payer == Payer::kTarget && !row.planned) ns += row.ns;
  }
  return ns;
}

}  // namespace profd
