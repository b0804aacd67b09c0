// The keys that stacks can be grouped by (--by).
#ifndef PROFD_CLIENT_ANSWER_GROUP_BY_H_
#define PROFD_CLIENT_ANSWER_GROUP_BY_H_

#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "profd/v1/profiler.pb.h"

namespace profctl {

using profd::v1::GroupKey;

struct GroupByInfo {
  std::string_view name;       // as in --by
  std::vector<GroupKey> keys;  // from the outermost
  std::string_view meaning;    // a few words for help
};

std::span<const GroupByInfo> AllGroupBys();

// What a label of this key names: "process", "thread", "reason" ...; empty for an unknown key.
std::string_view GroupKeyName(int key);

// The keys of names with commas between them, each once. InvalidArgument for an unknown name.
absl::StatusOr<std::vector<GroupKey>> ParseGroupBy(std::string_view names);

}  // namespace profctl

#endif  // PROFD_CLIENT_ANSWER_GROUP_BY_H_
