#include "client/answer/group_by.h"

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/text/text.h"

namespace profctl {

std::span<const GroupByInfo> AllGroupBys() {
  using namespace profd::v1;  // NOLINT: the keys
  static const std::vector<GroupByInfo> kAll = {
      {"name",
       {GROUP_KEY_PROCESS_NAME, GROUP_KEY_THREAD_NAME},
       "names of process and thread, without trailing numbers"},
      {"thread", {GROUP_KEY_PROCESS, GROUP_KEY_THREAD}, "each process and thread"},
      {"process", {GROUP_KEY_PROCESS}, "each process"},
      {"reason", {GROUP_KEY_REASON}, "the reason of the wait: lock, disk, net ..."},
      {"object", {GROUP_KEY_OBJECT}, "what was waited for: a socket, pipe, file, futex ..."},
      {"module", {GROUP_KEY_MODULE}, "the file of the program's innermost function"},
      {"function", {GROUP_KEY_FUNCTION}, "the program's innermost function"},
  };
  return kAll;
}

std::string_view GroupKeyName(int key) {
  switch (key) {
    case profd::v1::GROUP_KEY_PROCESS:
    case profd::v1::GROUP_KEY_PROCESS_NAME:
      return "process";
    case profd::v1::GROUP_KEY_THREAD:
    case profd::v1::GROUP_KEY_THREAD_NAME:
      return "thread";
    case profd::v1::GROUP_KEY_REASON:
      return "reason";
    case profd::v1::GROUP_KEY_OBJECT:
      return "object";
    case profd::v1::GROUP_KEY_MODULE:
      return "module";
    case profd::v1::GROUP_KEY_FUNCTION:
      return "function";
    default:
      return "";
  }
}

absl::StatusOr<std::vector<GroupKey>> ParseGroupBy(std::string_view names) {
  std::vector<GroupKey> keys;
  for (const absl::string_view part :
       absl::StrSplit(absl::string_view(names.data(), names.size()), ',')) {
    const std::string_view name(part.data(), part.size());
    const auto all = AllGroupBys();
    const auto it = std::find_if(all.begin(), all.end(),
                                 [&](const GroupByInfo& info) { return info.name == name; });
    if (it == all.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", CleanName(name), "' is not one of ",
                       absl::StrJoin(all, ", ", [](std::string* out, const GroupByInfo& info) {
                         out->append(info.name);
                       })));
    }
    for (const GroupKey key : it->keys) {
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
    }
  }
  return keys;
}

}  // namespace profctl
