#ifndef PROFD_DAEMON_BASE_DURATION_H_
#define PROFD_DAEMON_BASE_DURATION_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace profd {

// Pieces of a number and a unit (ns, us, ms, s, min, h, d, w and their long names), such as "90s",
// "5 min", "1h30m", "250ms". None for anything else, for a sign, and for a missing unit.
std::optional<absl::Duration> DurationOf(std::string_view text);
// The same in ns. InvalidArgument if there is none, and for more than ten years; its message goes
// on after the text: "is not a duration".
absl::StatusOr<int64_t> ParseDuration(std::string_view text);

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_DURATION_H_
