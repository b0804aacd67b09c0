#include <cstdint>
#include <optional>
#include <utility>

#include "client/render/json_parts.h"
#include "client/render/memory.h"
#include "client/render/memory_figures.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace profctl {
namespace {

using nlohmann::ordered_json;
using profd::v1::GetMemoryResponse;
using profd::v1::MemoryPoint;
using profd::v1::ProcessMemory;

constexpr double kSecondNs = 1e9;

ordered_json OrNull(const std::optional<double>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}
ordered_json OrNull(bool known, int64_t value) {
  return known ? ordered_json(value) : ordered_json(nullptr);
}

// Every field under its name in the protocol; null: unknown.
ordered_json PointJson(const MemoryPoint& point) {
  const google::protobuf::Descriptor& type = *MemoryPoint::descriptor();
  const google::protobuf::Reflection& reflection = *MemoryPoint::GetReflection();
  ordered_json json;
  for (int i = 0; i < type.field_count(); ++i) {
    const google::protobuf::FieldDescriptor* field = type.field(i);
    const bool known = !field->has_presence() || reflection.HasField(point, field);
    json[field->name()] = OrNull(known, reflection.GetInt64(point, field));
  }
  return json;
}

ordered_json GrowthJson(const ProcessMemory& process) {
  const std::optional<Trend> trend = RssTrend(process);
  if (!trend) return nullptr;
  const char* direction = trend->direction > 0   ? "grows"
                          : trend->direction < 0 ? "shrinks"
                                                 : "steady";
  return {{"rss_bytes_per_minute", trend->bytes_per_minute},
          {"direction", direction},
          {"seconds_to_limit", OrNull(SecondsToLimit(process, trend))}};
}

ordered_json ProcessJson(const ProcessMemory& process, int64_t heap_ns) {
  const auto heap_s = static_cast<double>(heap_ns) / kSecondNs;
  const auto rate = [&](bool known, int64_t bytes) {
    return known && heap_s > 0 ? ordered_json(static_cast<double>(bytes) / heap_s)
                               : ordered_json(nullptr);
  };
  ordered_json points = ordered_json::array();
  for (const MemoryPoint& point : process.points()) points.push_back(PointJson(point));
  ordered_json cgroup = nullptr;
  if (process.has_cgroup()) {
    cgroup = {{"path", process.cgroup().path()}, {"version", process.cgroup().version()}};
  }
  ordered_json sites = ordered_json::array();
  for (const profd::v1::AllocationSite& site : process.sites()) {
    sites.push_back({{"function", site.function()},
                     {"bytes", site.bytes()},
                     {"error_bytes", site.error_bytes()}});
  }
  ordered_json threads = ordered_json::array();
  for (const profd::v1::ThreadHeap& thread : process.threads()) {
    threads.push_back({{"tid", thread.tid()},
                       {"name", thread.name()},
                       {"allocated_bytes", thread.allocated_bytes()},
                       {"freed_bytes", thread.freed_bytes()},
                       {"net_bytes", thread.allocated_bytes() - thread.freed_bytes()}});
  }
  const std::optional<int64_t> fragmentation = Fragmentation(process);
  return {{"pid", process.pid()},
          {"name", process.name()},
          {"started_ns", process.started_ns()},
          {"ended", process.ended()},
          {"peak_rss_bytes", OrNull(process.has_peak_rss_bytes(), process.peak_rss_bytes())},
          {"cgroup", std::move(cgroup)},
          {"growth", GrowthJson(process)},
          {"minor_faults_per_s", OrNull(PerSecond(process, MinorFaults))},
          {"major_faults_per_s", OrNull(PerSecond(process, MajorFaults))},
          {"allocator", process.allocator()},
          {"allocated_bytes", OrNull(process.has_allocated_bytes(), process.allocated_bytes())},
          {"freed_bytes", OrNull(process.has_freed_bytes(), process.freed_bytes())},
          {"allocated_bytes_per_s", rate(process.has_allocated_bytes(), process.allocated_bytes())},
          {"freed_bytes_per_s", rate(process.has_freed_bytes(), process.freed_bytes())},
          {"net_allocated_bytes",
           OrNull(process.has_net_allocated_bytes(), process.net_allocated_bytes())},
          {"live_bytes", OrNull(process.has_live_bytes(), process.live_bytes())},
          {"live_since_ns", OrNull(process.has_live_bytes(), process.live_since_ns())},
          {"live_counted", process.live_counted()},
          {"fragmentation_bytes", OrNull(fragmentation.has_value(), fragmentation.value_or(0))},
          {"mapped_bytes", OrNull(process.has_mapped_bytes(), process.mapped_bytes())},
          {"unmapped_bytes", OrNull(process.has_unmapped_bytes(), process.unmapped_bytes())},
          {"returned_bytes", OrNull(process.has_returned_bytes(), process.returned_bytes())},
          {"sites", std::move(sites)},
          {"threads", std::move(threads)},
          {"note", process.note()},
          {"points", std::move(points)}};
}

}  // namespace

std::string RenderMemoryJson(const MemoryReport& report) {
  const GetMemoryResponse& memory = report.memory;
  ordered_json processes = ordered_json::array();
  for (const ProcessMemory& process : memory.processes()) {
    processes.push_back(ProcessJson(process, memory.heap_ns()));
  }
  ordered_json notes = ordered_json::array();
  for (const std::string& note : memory.notes()) notes.push_back(note);
  return DumpJson({{"format", "profd-memory"},
                   {"version", 1},
                   {"hostname", memory.hostname()},
                   {"begin_ns", memory.begin_ns()},
                   {"end_ns", memory.end_ns()},
                   {"heap_ns", memory.heap_ns()},
                   {"processes_left_out", memory.processes_left_out()},
                   {"processes_unwatched", memory.processes_unwatched()},
                   {"notes", std::move(notes)},
                   {"losses", ToJson(memory.losses())},
                   {"processes", std::move(processes)}});
}

}  // namespace profctl
