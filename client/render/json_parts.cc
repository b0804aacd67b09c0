#include "client/render/json_parts.h"

namespace profctl {

using nlohmann::ordered_json;

ordered_json ToJson(const google::protobuf::RepeatedPtrField<profd::v1::Loss>& losses) {
  ordered_json list = ordered_json::array();
  for (const profd::v1::Loss& loss : losses) {
    list.push_back({{"cause", loss.cause()},
                    {"count", loss.count()},
                    {"weight_ns", loss.weight_ns()},
                    {"help", loss.help()}});
  }
  return list;
}

ordered_json ToJson(const profd::v1::Cost& cost) {
  return {{"daemon_cpu_ns", cost.daemon_cpu_ns()},
          {"tick_cpu_ns", cost.tick_cpu_ns()},
          {"drain_cpu_ns", cost.drain_cpu_ns()},
          {"in_path_ns", cost.in_path_ns()},
          {"switches", cost.switches()}};
}

std::string DumpJson(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace profctl
