#include "daemon/service/grouping.h"

#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "daemon/service/text.h"

namespace profd {
namespace {

std::vector<std::string> ThreadGroups(const MergedProfile& profile) {
  // By process name and group: the one name in it, or the group's where there are several.
  std::map<std::pair<std::string, std::string>, std::string> labels;
  for (const MergedThread& thread : profile.threads) {
    const std::string name = CleanText(thread.info->name, kMaxNameText);
    const std::string group = ThreadGroup(name);
    const auto [it, added] = labels.try_emplace({thread.info->process, group}, name);
    if (!added && it->second != name) it->second = group;
  }
  std::vector<std::string> groups;
  groups.reserve(profile.threads.size());
  for (const MergedThread& thread : profile.threads) {
    const std::string group = ThreadGroup(CleanText(thread.info->name, kMaxNameText));
    groups.push_back(labels[{thread.info->process, group}]);
  }
  return groups;
}

}  // namespace

std::string ThreadGroup(std::string_view name) {
  size_t end = name.size();
  while (end > 0 && absl::ascii_isdigit(static_cast<unsigned char>(name[end - 1]))) --end;
  if (end == name.size()) return std::string(name);
  while (end > 0 && std::string_view("-_:#./ ").find(name[end - 1]) != std::string_view::npos) {
    --end;
  }
  return std::string(end == 0 ? name : name.substr(0, end));
}

Grouping::Grouping(std::span<const v1::GroupKey> keys, const MergedProfile& profile,
                   const NamedStacks& stacks)
    : keys_(keys.begin(), keys.end()),
      profile_(profile),
      stacks_(stacks),
      thread_groups_(ThreadGroups(profile)) {}

std::vector<std::string> Grouping::Labels(const Subject& subject) const {
  std::vector<std::string> labels;
  labels.reserve(keys_.size());
  for (const v1::GroupKey key : keys_) labels.push_back(Label(key, subject));
  return labels;
}

std::string Grouping::Label(v1::GroupKey key, const Subject& subject) const {
  const ThreadInfo& info = *profile_.threads[subject.thread].info;
  const NamedFrame* origin = stacks_.Origin(subject.stack);
  switch (key) {
    case v1::GROUP_KEY_PROCESS:
      return absl::StrCat(CleanText(info.process, kMaxNameText), " (", info.pid, ")");
    case v1::GROUP_KEY_PROCESS_NAME:
      return CleanText(info.process, kMaxNameText);
    case v1::GROUP_KEY_THREAD:
      return absl::StrCat(CleanText(info.name, kMaxNameText), " (", info.tid, ")");
    case v1::GROUP_KEY_THREAD_NAME:
      return thread_groups_[subject.thread];
    case v1::GROUP_KEY_REASON:
      if (subject.ran) return "on-cpu";
      return subject.waits ? ReasonName(subject.reason) : "[no reason]";
    case v1::GROUP_KEY_OBJECT:
      return subject.object.empty() ? "[no object]" : std::string(subject.object);
    case v1::GROUP_KEY_MODULE:
      if (origin == nullptr) return "[unsampled]";
      return origin->module.empty() ? origin->function : origin->module;
    case v1::GROUP_KEY_FUNCTION:
      return origin == nullptr ? "[unsampled]" : std::string(stacks_.OriginFunction(subject.stack));
    default:
      break;
  }
  return "";
}

}  // namespace profd
