#include "client/render/json.h"

#include <string_view>

#include "absl/strings/str_format.h"
#include "client/idle.h"
#include "client/render/json_parts.h"
#include "client/text.h"

namespace profctl {
namespace {

using nlohmann::ordered_json;

std::string_view KindName(profd::v1::FrameKind kind) {
  switch (kind) {
    case profd::v1::FRAME_KIND_KERNEL:
      return "kernel";
    case profd::v1::FRAME_KIND_LIBC:
      return "libc";
    case profd::v1::FRAME_KIND_RUNTIME:
      return "runtime";
    case profd::v1::FRAME_KIND_APPLICATION:
      return "application";
    case profd::v1::FRAME_KIND_SYNTHETIC:
      return "synthetic";
    default:
      return "unknown";
  }
}

// Addresses and arguments use all 64 bits, which a JSON number does not hold everywhere.
std::string Hex(uint64_t value) { return absl::StrFormat("0x%x", value); }

ordered_json LayersJson(const profd::v1::Header& header, Unit unit) {
  if (header.kind() == profd::v1::PROFILE_KIND_RESIDENT) return {{"faults_ns", header.heap_ns()}};
  if (DescribeKind(header.kind()).calls) return {{"mappings_ns", header.heap_ns()}};
  if (unit == Unit::kBytes) {
    ordered_json layers = {{"heap_ns", header.heap_ns()}};
    if (header.bursts_on_ns() > 0) {
      layers["bursts_on_ns"] = header.bursts_on_ns();
      layers["bursts"] = header.bursts();
      layers["burst_ns"] = header.burst_ns();
    }
    return layers;
  }
  return {{"books_ns", header.books_ns()},
          {"switch_ns", header.switch_ns()},
          {"tick_ns", header.tick_ns()}};
}

ordered_json HeaderJson(const profd::v1::Header& header, Unit unit) {
  ordered_json processes = ordered_json::array();
  for (const std::string& process : header.processes()) processes.push_back(process);
  return {{"daemon_version", header.daemon_version()},
          {"hostname", header.hostname()},
          {"kernel_release", header.kernel_release()},
          {"begin", FormatTimeRfc3339(header.begin_ns())},
          {"end", FormatTimeRfc3339(header.end_ns())},
          {"begin_ns", header.begin_ns()},
          {"end_ns", header.end_ns()},
          {"requested_begin_ns", header.requested_begin_ns()},
          {"requested_end_ns", header.requested_end_ns()},
          {"layers", LayersJson(header, unit)},
          {"processes", std::move(processes)},
          {"process_count", header.process_count()}};
}

ordered_json MemoryThreadJson(const profd::v1::Thread& thread) {
  ordered_json json = {{"pid", thread.pid()},       {"tid", thread.tid()},
                       {"name", thread.name()},     {"process", thread.process()},
                       {"exited", thread.exited()}, {"heap", nullptr}};
  if (thread.has_heap()) json["heap"] = ToJson(thread.heap());
  return json;
}

ordered_json ThreadJson(const profd::v1::Thread& thread, Unit unit) {
  if (unit == Unit::kBytes) return MemoryThreadJson(thread);
  ordered_json off = ordered_json::array();
  for (const profd::v1::ReasonTotal& total : thread.off()) {
    off.push_back({{"reason", DescribeReason(total.reason()).name},
                   {"time_ns", total.time_ns()},
                   {"waits", total.waits()},
                   {"samples", total.samples()}});
  }
  return {{"pid", thread.pid()},
          {"tid", thread.tid()},
          {"name", thread.name()},
          {"process", thread.process()},
          {"wall_ns", thread.wall_ns()},
          {"on_cpu_ns", thread.on_cpu_ns()},
          {"off", std::move(off)},
          {"estimated_ns", thread.estimated_ns()},
          {"books_on_cpu_ns", thread.books_on_cpu_ns()},
          {"books_runqueue_ns", thread.books_runqueue_ns()},
          {"voluntary_switches", thread.voluntary_switches()},
          {"involuntary_switches", thread.involuntary_switches()},
          {"minor_faults", thread.minor_faults()},
          {"major_faults", thread.major_faults()},
          {"read_bytes", thread.read_bytes()},
          {"write_bytes", thread.write_bytes()},
          {"exited", thread.exited()}};
}

ordered_json FrameJson(const profd::v1::Frame& frame) {
  return {{"function", frame.function()},
          {"module", frame.module()},
          {"build_id", frame.build_id()},
          {"offset", Hex(frame.offset())},
          {"kind", KindName(frame.kind())}};
}

ordered_json MemorySampleJson(const Sample& sample, bool level) {
  ordered_json json = {{"thread", sample.thread},       {"stack", nullptr},
                       {"bytes", sample.value},         {"error_bytes", sample.error},
                       {"weight_bytes", sample.weight}, {"events", sample.count}};
  if (sample.stack != kUnsampled) json["stack"] = sample.stack;
  if (level) json["growth_bytes"] = sample.growth;
  return json;
}

ordered_json WaitSampleJson(const Sample& sample, std::string_view idle) {
  ordered_json json = {{"thread", sample.thread},
                       {"reason", DescribeReason(sample.reason).name},
                       {"stack", nullptr},
                       {"syscall", sample.syscall},
                       {"argument", Hex(sample.argument)},
                       {"time_ns", sample.value},
                       {"error_ns", sample.error},
                       {"weight_ns", sample.weight},
                       {"ticks", sample.count},
                       {"idle", nullptr}};
  if (sample.stack != kUnsampled) json["stack"] = sample.stack;
  if (!idle.empty()) json["idle"] = idle;
  return json;
}

ordered_json TrailerJson(const profd::v1::Trailer& trailer, const KindInfo& kind) {
  if (kind.level || kind.calls) {
    return {{"complete_share", trailer.complete_share()},
            {"losses", ToJson(trailer.losses())},
            {"cost", ToJson(trailer.cost())}};
  }
  if (kind.unit == Unit::kBytes) {
    return {{"heap", ToJson(trailer.heap())},
            {"complete_share", trailer.complete_share()},
            {"losses", ToJson(trailer.losses())},
            {"cost", ToJson(trailer.cost())}};
  }
  return {{"ticks", trailer.ticks()},
          {"ticks_missed", trailer.ticks_missed()},
          {"tick_interval_ns", trailer.tick_interval_ns()},
          {"samples", trailer.samples()},
          {"walks", trailer.walks()},
          {"torn_walks", trailer.torn_walks()},
          {"complete_share", trailer.complete_share()},
          {"losses", ToJson(trailer.losses())},
          {"cost", ToJson(trailer.cost())}};
}

}  // namespace

std::string RenderJson(const Profile& profile) {
  ordered_json json = {{"format", "profd-profile"}, {"version", 1}};
  if (profile.header.kind() != profd::v1::PROFILE_KIND_UNSPECIFIED) {
    json["kind"] = DescribeKind(profile.header.kind()).name;
    json["unit"] = UnitName(profile.unit);
  }
  json["header"] = HeaderJson(profile.header, profile.unit);
  ordered_json& threads = json["threads"] = ordered_json::array();
  for (const profd::v1::Thread& thread : profile.threads) {
    threads.push_back(ThreadJson(thread, profile.unit));
  }
  ordered_json& frames = json["frames"] = ordered_json::array();
  for (const profd::v1::Frame& frame : profile.frames) frames.push_back(FrameJson(frame));
  ordered_json& stacks = json["stacks"] = ordered_json::array();
  for (const Stack& stack : profile.stacks) {
    stacks.push_back({{"frames", stack.frames}, {"complete", stack.complete}});
  }
  ordered_json& samples = json["samples"] = ordered_json::array();
  const IdleRule rule(profile);
  const KindInfo& kind = DescribeKind(profile.header.kind());
  for (const Sample& sample : profile.samples) {
    samples.push_back(profile.unit == Unit::kBytes ? MemorySampleJson(sample, kind.level)
                                                   : WaitSampleJson(sample, rule.Group(sample)));
  }
  json["trailer"] = TrailerJson(profile.trailer, kind);
  if (profile.trailer.has_memory()) json["trailer"]["memory"] = ToJson(profile.trailer.memory());
  return DumpJson(json);
}

}  // namespace profctl
