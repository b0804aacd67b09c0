#include "client/render/speedscope.h"

#include <cstdint>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "client/render/json_parts.h"
#include "client/text/text.h"
#include "nlohmann/json.hpp"

namespace profctl {
namespace {

using nlohmann::ordered_json;

constexpr char kSchema[] = "https://www.speedscope.app/file-format-schema.json";

// The frames that all profiles of a file share.
class Frames {
 public:
  size_t Index(const std::string& name, const std::string& file, int64_t line = 0) {
    const auto [it, fresh] = indexes_.try_emplace({name, file, line}, indexes_.size());
    if (fresh) {
      ordered_json frame = {{"name", name}};
      if (!file.empty()) frame["file"] = file;
      if (line > 0) frame["line"] = line;
      list_.push_back(std::move(frame));
    }
    return it->second;
  }
  ordered_json Take() { return std::move(list_); }

 private:
  absl::flat_hash_map<std::tuple<std::string, std::string, int64_t>, size_t> indexes_;
  ordered_json list_ = ordered_json::array();
};

ordered_json ProfileJson(const View& view, Frames* frames) {
  const Profile& profile = *view.profile;
  std::vector<size_t> index_of_frame;
  index_of_frame.reserve(profile.frames.size());
  for (const Frame& frame : profile.frames) {
    // Without debug info, the module is what says where a function is.
    const bool source = !frame.file.empty();
    index_of_frame.push_back(frames->Index(CleanName(frame.function),
                                           CleanName(source ? frame.file : frame.module),
                                           source ? frame.line : 0));
  }
  ordered_json samples = ordered_json::array();
  ordered_json weights = ordered_json::array();
  for (const Sample* sample : view.shown) {
    ordered_json stack = ordered_json::array();
    for (const std::string& label : profile.groups[sample->group]) {
      stack.push_back(frames->Index(CleanName(label), ""));
    }
    if (sample->stack == kUnsampled) {
      stack.push_back(frames->Index("[unsampled]", ""));
    } else {
      const std::vector<uint32_t>& own = profile.stacks[sample->stack].frames;
      for (auto it = own.rbegin(); it != own.rend(); ++it) stack.push_back(index_of_frame[*it]);
    }
    if (profile.kind->EndsInReason()) {
      stack.push_back(frames->Index(
          absl::StrCat("[", std::string(DescribeReason(sample->reason).name), "]"), ""));
      if (NamesObject(*sample)) stack.push_back(frames->Index(CleanName(sample->object), ""));
      if (!sample->lock.empty()) stack.push_back(frames->Index(DescribeLock(*sample), ""));
    }
    samples.push_back(std::move(stack));
    weights.push_back(sample->value);
  }
  return {
      {"type", "sampled"},
      {"name", absl::StrCat(std::string(profile.kind->title), ": ", DescribeProcesses(profile))},
      // Its format has no unit of numbers.
      {"unit", profile.unit == Unit::kCount ? "none" : profile.type.unit()},
      {"startValue", 0},
      {"endValue", view.shown_value},
      {"samples", std::move(samples)},
      {"weights", std::move(weights)}};
}

}  // namespace

std::string RenderSpeedscope(const std::vector<View>& views) {
  Frames frames;
  ordered_json profiles = ordered_json::array();
  for (const View& view : views) profiles.push_back(ProfileJson(view, &frames));
  const Profile& first = *views.front().profile;
  return DumpJson({{"$schema", kSchema},
                   {"name", absl::StrCat(DescribeProcesses(first), " at ",
                                         FormatTime(first.coverage().begin_ns()))},
                   {"exporter", absl::StrCat("profd ", first.message->host().daemon_version())},
                   {"activeProfileIndex", 0},
                   {"shared", {{"frames", frames.Take()}}},
                   {"profiles", std::move(profiles)}});
}

}  // namespace profctl
