#ifndef PROFD_DAEMON_BASE_DURATION_H_
#define PROFD_DAEMON_BASE_DURATION_H_

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace profd {

// Pieces of a number and a unit (ns, us, ms, s, min, h, d, w and their long names), such as "90s",
// "5 min", "1h30m", "250ms", in ns. InvalidArgument for anything else, for a sign, a missing unit,
// and for more than 10 years; its message goes on after the text: "is not a duration; ...".
absl::StatusOr<int64_t> ParseDuration(std::string_view text);

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_DURATION_H_
