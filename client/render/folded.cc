#include "client/render/folded.h"

#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/text/text.h"

namespace profctl {
namespace {

std::string FoldedName(std::string_view name) {
  std::string folded = CleanName(name);
  for (char& c : folded) {
    if (c == ';') c = ':';
    if (c == ' ') c = '_';
  }
  return folded.empty() ? "?" : folded;
}

}  // namespace

std::string RenderFolded(const View& view) {
  const Profile& profile = *view.profile;
  std::vector<std::string> frames;
  frames.reserve(profile.frames.size());
  for (const Frame& frame : profile.frames) {
    frames.push_back(FoldedName(frame.function));
    if (frame.kind == profd::v1::FRAME_KIND_KERNEL) frames.back() += "_[k]";
  }
  std::vector<std::string> groups;
  groups.reserve(profile.groups.size());
  for (const std::vector<std::string>& labels : profile.groups) {
    std::string& group = groups.emplace_back();
    for (const std::string& label : labels) {
      absl::StrAppend(&group, group.empty() ? "" : ";", FoldedName(label));
    }
  }
  std::map<std::string, int64_t> lines;
  std::string line;
  for (const Sample* sample : view.shown) {
    line = groups[sample->group];
    const auto add = [&line](std::string_view frame) {
      if (!line.empty()) line += ';';
      line += frame;
    };
    if (sample->stack == kUnsampled) {
      add("[unsampled]");
    } else {
      const std::vector<uint32_t>& stack = profile.stacks[sample->stack].frames;
      for (auto it = stack.rbegin(); it != stack.rend(); ++it) add(frames[*it]);
    }
    if (profile.kind->EndsInReason()) {
      const std::string_view reason = DescribeReason(sample->reason).name;
      line.append(";[").append(reason).append("]");
      if (NamesObject(*sample)) add(FoldedName(CleanName(sample->object)));
      if (!sample->lock.empty()) add(FoldedName(DescribeLock(*sample)));
    }
    lines[line] += sample->value;
  }
  std::string folded;
  for (const auto& [stack, value] : lines) absl::StrAppend(&folded, stack, " ", value, "\n");
  return folded;
}

}  // namespace profctl
