// Reads and writes durations and times. What is written can be read back.
#ifndef PROFD_CLIENT_TEXT_TIME_TEXT_H_
#define PROFD_CLIENT_TEXT_TIME_TEXT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace profctl {

// "12 ns", "7.89 us", "45.6 ms", "1.23 s", "16.7 min", "1.50 h", "3.00 d": three significant
// digits. Minutes begin at 1000 s, days at 48 h.
std::string FormatDuration(int64_t ns);
// "2026-01-31T14:05:09+01:00" in the local time zone, "...Z" where that is UTC; `ns` since the Unix
// epoch.
std::string FormatTime(int64_t ns, const absl::TimeZone& zone = absl::LocalTimeZone());
// "2026-01-31T14:05:09.123+01:00", rounded down.
std::string FormatTimeMs(int64_t ns, const absl::TimeZone& zone = absl::LocalTimeZone());
// "20260131T130509Z".
std::string FormatFileTimeUtc(int64_t ns);
// RFC 3339 with nanoseconds, UTC.
std::string FormatTimeRfc3339(int64_t ns);

// profd::ParseDuration, with a message that names the text and gives examples.
absl::StatusOr<int64_t> ParseDuration(std::string_view text);

// How to interpret a time.
struct TimeContext {
  int64_t now_ns = 0;
  absl::TimeZone zone = absl::LocalTimeZone();  // of times without a zone
  // A time without a date is the first one after this; without it, the last one until now.
  std::optional<int64_t> after_ns = {};
};

// A time in ns since the epoch. InvalidArgument, in one line with examples, for anything but
//   14:00, 14:00:05.25             today or yesterday, by the context
//   yesterday 14:00, today 14:00
//   2026-01-31, 2026-01-31 14:00, 2026-01-31T14:00:05
//   20260131T130500Z               as in file names
//   now, 5min ago
//   1769864700.5                   seconds since 1970
// Each day and clock may have a zone after it: Z, UTC, +01:00, +0100, Europe/Berlin.
absl::StatusOr<int64_t> ParseTime(std::string_view text, const TimeContext& context);

}  // namespace profctl

#endif  // PROFD_CLIENT_TEXT_TIME_TEXT_H_
