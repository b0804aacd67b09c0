// The reasons for not running, and running itself, as people write and read them.
#ifndef PROFD_CLIENT_REASON_H_
#define PROFD_CLIENT_REASON_H_

#include <optional>
#include <span>
#include <string_view>

#include "profd/v1/profiler.pb.h"

namespace profctl {

using profd::v1::Reason;

struct ReasonInfo {
  Reason reason;
  std::string_view name;     // as in --reason and in folded stacks, without brackets
  std::string_view meaning;  // a few words for help and tables
};

// Every reason there is, and at the end that a thread ran, in the order of the protocol.
std::span<const ReasonInfo> AllReasons();
// "other" for a value this client does not know.
const ReasonInfo& DescribeReason(Reason reason);
std::optional<Reason> ParseReason(std::string_view name);

}  // namespace profctl

#endif  // PROFD_CLIENT_REASON_H_
