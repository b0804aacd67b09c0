#include "client/render/json_parts.h"

#include <utility>

namespace profctl {

using nlohmann::ordered_json;

ordered_json ToJson(const google::protobuf::RepeatedPtrField<profd::v1::Loss>& losses) {
  ordered_json list = ordered_json::array();
  for (const profd::v1::Loss& loss : losses) {
    list.push_back({{"cause", loss.cause()},
                    {"count", loss.count()},
                    {"weight_ns", loss.weight_ns()},
                    {"weight_bytes", loss.weight_bytes()},
                    {"help", loss.help()}});
  }
  return list;
}

ordered_json ToJson(const profd::v1::Cost& cost) {
  ordered_json targets = ordered_json::array();
  for (const profd::v1::TargetCost& target : cost.targets()) targets.push_back(ToJson(target));
  ordered_json json = {{"daemon_cpu_ns", cost.daemon_cpu_ns()},
                       {"tick_cpu_ns", cost.tick_cpu_ns()},
                       {"drain_cpu_ns", cost.drain_cpu_ns()},
                       {"rules_cpu_ns", cost.rules_cpu_ns()},
                       {"answers_cpu_ns", cost.answers_cpu_ns()},
                       {"in_path_ns", cost.in_path_ns()},
                       {"switches", cost.switches()},
                       {"duration_ns", cost.duration_ns()},
                       {"targets", std::move(targets)}};
  if (cost.heap_events() > 0) {
    json["heap_in_path_ns"] = cost.heap_in_path_ns();
    json["heap_events"] = cost.heap_events();
  }
  if (cost.faults() > 0) {
    json["fault_in_path_ns"] = cost.fault_in_path_ns();
    json["faults"] = cost.faults();
  }
  if (cost.mapping_calls() > 0) {
    json["mapping_in_path_ns"] = cost.mapping_in_path_ns();
    json["mapping_calls"] = cost.mapping_calls();
  }
  if (cost.cpu_samples() > 0) {
    json["cpu_in_path_ns"] = cost.cpu_in_path_ns();
    json["cpu_samples"] = cost.cpu_samples();
  }
  if (cost.disk_requests() > 0) {
    json["disk_in_path_ns"] = cost.disk_in_path_ns();
    json["disk_requests"] = cost.disk_requests();
  }
  if (cost.wakes() > 0) {
    json["waker_in_path_ns"] = cost.waker_in_path_ns();
    json["wakes"] = cost.wakes();
  }
  if (cost.switch_stacks() > 0) {
    json["switch_stack_in_path_ns"] = cost.switch_stack_in_path_ns();
    json["switch_stacks"] = cost.switch_stacks();
  }
  if (cost.burst_calls() > 0) {
    json["burst_in_path_ns"] = cost.burst_in_path_ns();
    json["burst_calls"] = cost.burst_calls();
  }
  if (cost.memory_cpu_ns() > 0) json["memory_cpu_ns"] = cost.memory_cpu_ns();
  return json;
}

ordered_json ToJson(const profd::v1::HeapTotal& heap) {
  ordered_json json = {{"bytes", heap.bytes()},
                       {"events", heap.events()},
                       {"weight_bytes", heap.weight_bytes()},
                       {"gaps", heap.gaps()},
                       {"unseen_bytes", heap.unseen_bytes()}};
  if (heap.estimated_bytes() != 0) json["estimated_bytes"] = heap.estimated_bytes();
  if (heap.late_bytes() != 0) json["late_bytes"] = heap.late_bytes();
  return json;
}

ordered_json ToJson(const profd::v1::TargetCost& cost) {
  return {{"target", cost.target()},
          {"in_path_ns", cost.in_path_ns()},
          {"tick_cpu_ns", cost.tick_cpu_ns()},
          {"drain_cpu_ns", cost.drain_cpu_ns()},
          {"switches", cost.switches()}};
}

std::string DumpJson(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace profctl
