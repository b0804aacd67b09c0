#include "client/render/look_groups.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/text/text.h"

namespace profctl {

std::string DurationOf(const ThreadLook& look) {
  return look.for_ns ? FormatDuration(*look.for_ns) : "?";
}

std::string ObjectOf(const ThreadLook& look) {
  if (look.file.empty() || !look.object.starts_with("fd ")) return CleanName(look.object);
  return absl::StrCat(CleanName(look.object), " (", CleanName(look.file), ")");
}

std::vector<std::string> FunctionsOf(const Profile& profile, const ThreadLook& look) {
  std::vector<std::string> functions;
  if (look.stack == kUnsampled) return functions;
  for (const uint32_t index : profile.stacks[look.stack].frames) {
    const Frame& frame = profile.frames[index];
    const bool kernel = frame.kind == profd::v1::FRAME_KIND_KERNEL;
    if (kernel && frame.common) continue;
    functions.push_back(CleanName(frame.function) + (kernel ? " (kernel)" : ""));
  }
  return functions;
}

std::string OriginOf(const Profile& profile, const ThreadLook& look) {
  if (look.stack == kUnsampled) return "";
  const uint32_t origin = profile.stacks[look.stack].origin;
  return origin == kUnsampled ? "" : CleanName(profile.frames[origin].function);
}

std::vector<LookGroup> GroupLooks(const Profile& profile,
                                  const std::vector<const ThreadLook*>& looks) {
  using Key = std::tuple<int32_t, Reason, std::string, std::vector<std::string>>;
  std::map<Key, LookGroup> groups;
  for (const ThreadLook* look : looks) {
    groups[{profile.threads[look->thread].pid, look->reason, look->idle,
            FunctionsOf(profile, *look)}]
        .looks.push_back(look);
  }
  const auto longer = [](const ThreadLook* a, const ThreadLook* b) { return WaitsLonger(*a, *b); };
  std::vector<LookGroup> sorted;
  for (auto& [key, group] : groups) {
    std::stable_sort(group.looks.begin(), group.looks.end(), longer);
    sorted.push_back(std::move(group));
  }
  std::stable_sort(sorted.begin(), sorted.end(), [](const LookGroup& a, const LookGroup& b) {
    return WaitsLonger(a.longest(), b.longest());
  });
  return sorted;
}

}  // namespace profctl
