#include "daemon/profile/cost.h"

#include <algorithm>

#include "daemon/base/wrapping.h"

namespace profd {
namespace {

int64_t Share(int64_t cost, int64_t part, int64_t whole) {
  if (whole <= 0) return 0;
  return static_cast<int64_t>(static_cast<double>(cost) * static_cast<double>(part) /
                              static_cast<double>(whole));
}

void AddTarget(const TargetCost& cost, std::vector<TargetCost>* targets) {
  auto it = std::find_if(targets->begin(), targets->end(),
                         [&](const TargetCost& t) { return t.target == cost.target; });
  if (it == targets->end()) it = targets->insert(it, {.target = cost.target});
  it->in_path_ns = WrappingAdd(it->in_path_ns, cost.in_path_ns);
  it->tick_cpu_ns = WrappingAdd(it->tick_cpu_ns, cost.tick_cpu_ns);
  it->drain_cpu_ns = WrappingAdd(it->drain_cpu_ns, cost.drain_cpu_ns);
  it->switches = WrappingAdd(it->switches, cost.switches);
}

}  // namespace

void AddCost(const CollectorCost& cost, CollectorCost* sum) {
  sum->daemon_cpu_ns = WrappingAdd(sum->daemon_cpu_ns, cost.daemon_cpu_ns);
  sum->tick_cpu_ns = WrappingAdd(sum->tick_cpu_ns, cost.tick_cpu_ns);
  sum->drain_cpu_ns = WrappingAdd(sum->drain_cpu_ns, cost.drain_cpu_ns);
  sum->rules_cpu_ns = WrappingAdd(sum->rules_cpu_ns, cost.rules_cpu_ns);
  sum->answers_cpu_ns = WrappingAdd(sum->answers_cpu_ns, cost.answers_cpu_ns);
  sum->in_path_ns = WrappingAdd(sum->in_path_ns, cost.in_path_ns);
  sum->switches = WrappingAdd(sum->switches, cost.switches);
  sum->heap_in_path_ns = WrappingAdd(sum->heap_in_path_ns, cost.heap_in_path_ns);
  sum->heap_events = WrappingAdd(sum->heap_events, cost.heap_events);
  sum->fault_in_path_ns = WrappingAdd(sum->fault_in_path_ns, cost.fault_in_path_ns);
  sum->faults = WrappingAdd(sum->faults, cost.faults);
  sum->map_in_path_ns = WrappingAdd(sum->map_in_path_ns, cost.map_in_path_ns);
  sum->map_calls = WrappingAdd(sum->map_calls, cost.map_calls);
  sum->cpu_in_path_ns = WrappingAdd(sum->cpu_in_path_ns, cost.cpu_in_path_ns);
  sum->cpu_samples = WrappingAdd(sum->cpu_samples, cost.cpu_samples);
  sum->disk_in_path_ns = WrappingAdd(sum->disk_in_path_ns, cost.disk_in_path_ns);
  sum->disk_requests = WrappingAdd(sum->disk_requests, cost.disk_requests);
  sum->waker_in_path_ns = WrappingAdd(sum->waker_in_path_ns, cost.waker_in_path_ns);
  sum->wakes = WrappingAdd(sum->wakes, cost.wakes);
  sum->switch_stack_in_path_ns =
      WrappingAdd(sum->switch_stack_in_path_ns, cost.switch_stack_in_path_ns);
  sum->switch_stacks = WrappingAdd(sum->switch_stacks, cost.switch_stacks);
  sum->memory_cpu_ns = WrappingAdd(sum->memory_cpu_ns, cost.memory_cpu_ns);
  sum->burst_in_path_ns = WrappingAdd(sum->burst_in_path_ns, cost.burst_in_path_ns);
  sum->burst_calls = WrappingAdd(sum->burst_calls, cost.burst_calls);
  for (const TargetCost& target : cost.targets) AddTarget(target, &sum->targets);
}

CollectorCost CostSince(const CollectorCost& after, const CollectorCost& before) {
  return {.daemon_cpu_ns = after.daemon_cpu_ns - before.daemon_cpu_ns,
          .tick_cpu_ns = after.tick_cpu_ns - before.tick_cpu_ns,
          .drain_cpu_ns = after.drain_cpu_ns - before.drain_cpu_ns,
          .rules_cpu_ns = after.rules_cpu_ns - before.rules_cpu_ns,
          .answers_cpu_ns = after.answers_cpu_ns - before.answers_cpu_ns,
          .in_path_ns = after.in_path_ns - before.in_path_ns,
          .switches = after.switches - before.switches,
          .heap_in_path_ns = after.heap_in_path_ns - before.heap_in_path_ns,
          .heap_events = after.heap_events - before.heap_events,
          .fault_in_path_ns = after.fault_in_path_ns - before.fault_in_path_ns,
          .faults = after.faults - before.faults,
          .map_in_path_ns = after.map_in_path_ns - before.map_in_path_ns,
          .map_calls = after.map_calls - before.map_calls,
          .cpu_in_path_ns = after.cpu_in_path_ns - before.cpu_in_path_ns,
          .cpu_samples = after.cpu_samples - before.cpu_samples,
          .disk_in_path_ns = after.disk_in_path_ns - before.disk_in_path_ns,
          .disk_requests = after.disk_requests - before.disk_requests,
          .waker_in_path_ns = after.waker_in_path_ns - before.waker_in_path_ns,
          .wakes = after.wakes - before.wakes,
          .switch_stack_in_path_ns = after.switch_stack_in_path_ns - before.switch_stack_in_path_ns,
          .switch_stacks = after.switch_stacks - before.switch_stacks,
          .memory_cpu_ns = after.memory_cpu_ns - before.memory_cpu_ns,
          .burst_in_path_ns = after.burst_in_path_ns - before.burst_in_path_ns,
          .burst_calls = after.burst_calls - before.burst_calls,
          .targets = {}};
}

std::vector<TargetCost> DivideCost(const CollectorCost& cost,
                                   const std::vector<TargetActivity>& activity) {
  TargetActivity all;
  for (const TargetActivity& a : activity) {
    all.switches += a.switches;
    all.ticks += a.ticks;
    all.threads += a.threads;
  }
  std::vector<TargetCost> costs;
  costs.reserve(activity.size());
  for (const TargetActivity& a : activity) {
    costs.push_back({.target = a.target,
                     .in_path_ns = Share(cost.in_path_ns, a.switches, all.switches),
                     .tick_cpu_ns = Share(cost.tick_cpu_ns, a.ticks, all.ticks),
                     .drain_cpu_ns = Share(cost.drain_cpu_ns, a.threads, all.threads),
                     .switches = a.switches});
  }
  return costs;
}

}  // namespace profd
