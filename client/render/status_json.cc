#include <utility>
#include <vector>

#include "client/render/json_parts.h"
#include "client/render/status.h"

namespace profctl {
namespace {

using nlohmann::ordered_json;
using profd::v1::GetStatusResponse;

ordered_json GovernorJson(const profd::v1::Governor& governor) {
  ordered_json sources = ordered_json::array();
  for (const profd::v1::GovernedSource& source : governor.sources()) {
    sources.push_back({{"name", source.name()},
                       {"in_path", source.in_path()},
                       {"level", source.level()},
                       {"given_up", source.given_up()},
                       {"cost", source.cost()},
                       {"whole_cost", source.whole_cost()}});
  }
  return {{"budget", governor.budget()},         {"share", governor.share()},
          {"of_targets", governor.of_targets()}, {"saved_s", governor.saved_s()},
          {"fixed_cost", governor.fixed_cost()}, {"changes", governor.changes()},
          {"sources", std::move(sources)}};
}

ordered_json NamesJson(const std::vector<KindNames>& names) {
  ordered_json kinds = ordered_json::array();
  for (const KindNames& kind : names) {
    ordered_json shares = ordered_json::array();
    for (const profd::v1::NameShare& share : kind.shares) {
      shares.push_back({{"source", profd::v1::NameSource_Name(share.source())},
                        {"share", share.share()},
                        {"stacks", share.stacks()}});
    }
    kinds.push_back({{"kind", kind.kind}, {"shares", std::move(shares)}, {"note", kind.note}});
  }
  return kinds;
}

ordered_json AllocatorJson(const profd::v1::AllocatorStatus& allocator) {
  ordered_json pids = ordered_json::array();
  for (const int32_t pid : allocator.pids()) pids.push_back(pid);
  return {{"pids", std::move(pids)},
          {"module", allocator.module()},
          {"build_id", allocator.build_id()},
          {"allocator", allocator.allocator()},
          {"version", allocator.version()},
          {"found_by", allocator.found_by()},
          {"places", allocator.places()},
          {"wrong_places", allocator.wrong_places()},
          {"watched", allocator.watched()},
          {"allocated", ToJson(allocator.allocated())},
          {"freed", ToJson(allocator.freed())},
          {"note", allocator.note()},
          {"live_since_ns", allocator.live_since_ns()},
          {"live_bytes", allocator.live_bytes()},
          {"live_objects", allocator.live_objects()},
          {"sample_bytes", allocator.sample_bytes()},
          {"live_note", allocator.live_note()}};
}

}  // namespace

std::string RenderStatusJson(const GetStatusResponse& status, const std::vector<KindNames>& names) {
  ordered_json layers = ordered_json::array();
  for (const auto& layer : status.layers()) {
    layers.push_back({{"name", layer.name()}, {"on", layer.on()}, {"note", layer.note()}});
  }
  ordered_json targets = ordered_json::array();
  for (const auto& target : status.targets()) {
    ordered_json pids = ordered_json::array();
    for (const int32_t pid : target.pids()) pids.push_back(pid);
    targets.push_back({{"selector", target.selector()},
                       {"pids", std::move(pids)},
                       {"threads", target.threads()},
                       {"cost", ToJson(target.cost())}});
  }
  ordered_json missing = ordered_json::array();
  for (const std::string& text : status.missing()) missing.push_back(text);
  ordered_json modules = ordered_json::array();
  for (const auto& module : status.module_list()) {
    modules.push_back({{"path", module.path()},
                       {"build_id", module.build_id()},
                       {"rules", module.rules()},
                       {"note", module.note()}});
  }
  ordered_json allocators = ordered_json::array();
  for (const auto& allocator : status.allocators()) allocators.push_back(AllocatorJson(allocator));
  ordered_json unknown = ordered_json::array();
  for (const auto& process : status.unknown_allocators()) {
    unknown.push_back({{"pid", process.pid()}, {"name", process.name()}});
  }
  ordered_json programs = ordered_json::array();
  for (const auto& program : status.programs()) {
    programs.push_back(
        {{"name", program.name()}, {"recursion_misses", program.recursion_misses()}});
  }
  ordered_json capabilities = ordered_json::array();
  for (const std::string& capability : status.capabilities()) capabilities.push_back(capability);
  return DumpJson({{"format", "profd-status"},
                   {"version", 1},
                   {"daemon_version", status.daemon_version()},
                   {"kernel_release", status.kernel_release()},
                   {"started_ns", status.started_ns()},
                   {"paused", status.paused()},
                   {"tick_interval_ns", status.tick_interval_ns()},
                   {"oldest_ns", status.oldest_ns()},
                   {"switch_entry_ns", status.switch_entry_ns()},
                   {"layers", std::move(layers)},
                   {"targets", std::move(targets)},
                   {"missing", std::move(missing)},
                   {"losses", ToJson(status.losses())},
                   {"cost", ToJson(status.cost())},
                   {"memory",
                    {{"daemon_rss_bytes", status.memory().daemon_rss_bytes()},
                     {"kernel_map_bytes", status.memory().kernel_map_bytes()},
                     {"store_bytes", status.memory().store_bytes()},
                     {"timeline_bytes", status.memory().timeline_bytes()}}},
                   {"line_reader",
                    {{"note", status.line_reader().note()},
                     {"addresses", status.line_reader().addresses()},
                     {"failures", status.line_reader().failures()},
                     {"cpu_ns", status.line_reader().cpu_ns()},
                     {"rss_bytes", status.line_reader().rss_bytes()},
                     {"cache_bytes", status.line_reader().cache_bytes()}}},
                   {"threads", status.threads()},
                   {"modules", status.modules()},
                   {"module_slots_in_use", status.module_slots_in_use()},
                   {"module_slots", status.module_slots()},
                   {"retired_modules", status.retired_modules()},
                   {"module_list", std::move(modules)},
                   {"allocators", std::move(allocators)},
                   {"unknown_allocators", std::move(unknown)},
                   {"programs", std::move(programs)},
                   {"capabilities", std::move(capabilities)},
                   {"governor", GovernorJson(status.governor())},
                   {"names", NamesJson(names)}});
}

}  // namespace profctl
