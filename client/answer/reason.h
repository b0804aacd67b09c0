// The reasons of waits, and running itself: names and meanings.
#ifndef PROFD_CLIENT_ANSWER_REASON_H_
#define PROFD_CLIENT_ANSWER_REASON_H_

#include <optional>
#include <span>
#include <string_view>

#include "profd/v1/profiler.pb.h"

namespace profctl {

using profd::v1::Reason;

struct ReasonInfo {
  Reason reason;
  std::string_view name;     // as in --reason and in folded stacks, without brackets
  std::string_view meaning;  // what the thread waits for, for help and tables
};

// All reasons; on-cpu, which is no wait, is the last.
std::span<const ReasonInfo> AllReasons();
// "other" for a value this client does not know.
const ReasonInfo& DescribeReason(Reason reason);
std::optional<Reason> ParseReason(std::string_view name);

}  // namespace profctl

#endif  // PROFD_CLIENT_ANSWER_REASON_H_
