#include <utility>

#include "client/render/json_parts.h"
#include "client/render/looks.h"

namespace profctl {
namespace {

using nlohmann::ordered_json;

const char* KindName(profd::v1::FrameKind kind) {
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
      return "";
  }
}

ordered_json StackJson(const Profile& profile, uint32_t stack) {
  ordered_json frames = ordered_json::array();
  if (stack == kUnsampled) return frames;
  for (const uint32_t index : profile.stacks[stack].frames) {
    const Frame& frame = profile.frames[index];
    ordered_json& added = frames.emplace_back(ordered_json{
        {"function", frame.function}, {"module", frame.module}, {"kind", KindName(frame.kind)}});
    if (frame.inlined) added["inlined"] = true;
    if (frame.file.empty()) continue;
    added["file"] = frame.file;
    if (frame.line > 0) added["line"] = frame.line;
  }
  return frames;
}

}  // namespace

ordered_json LookJson(const Looks& looks, const ThreadLook& look) {
  const Profile& profile = looks.profile();
  const Thread& thread = profile.threads[look.thread];
  ordered_json json = {
      {"process", thread.process},
      {"pid", thread.pid},
      {"name", thread.name},
      {"tid", thread.tid},
      {"reason", std::string(DescribeReason(look.reason).name)},
      {"for_ns", nullptr},
      {"idle", look.idle},
      {"syscall", nullptr},
      {"object", look.object},
      {"file", look.file},
      {"complete", look.stack != kUnsampled && profile.stacks[look.stack].complete},
      {"stack", StackJson(profile, look.stack)}};
  if (look.for_ns) json["for_ns"] = *look.for_ns;
  if (look.syscall >= 0) json["syscall"] = look.syscall;
  return json;
}

std::string RenderLooksJson(const Looks& looks) {
  const profd::v1::LookTotals& totals = looks.totals();
  ordered_json threads = ordered_json::array();
  for (const ThreadLook& look : looks.threads) threads.push_back(LookJson(looks, look));
  ordered_json shared = ordered_json::array();
  for (const SharedObject& object : SharedObjects(looks)) {
    ordered_json tids = ordered_json::array();
    for (const ThreadLook* look : object.waits) {
      tids.push_back(looks.profile().threads[look->thread].tid);
    }
    shared.push_back({{"object", object.name}, {"tids", std::move(tids)}});
  }
  return DumpJson({{"hostname", looks.answer.message().host().hostname()},
                   {"begin_ns", totals.begin_ns()},
                   {"duration_ns", totals.duration_ns()},
                   {"cpu_ns", totals.cpu_ns()},
                   {"visited", totals.visited()},
                   {"walks", totals.walks()},
                   {"count", totals.threads()},
                   {"left_out", totals.left_out()},
                   {"torn", totals.torn()},
                   {"threads", std::move(threads)},
                   {"shared", std::move(shared)}});
}

}  // namespace profctl
