#include "client/text/time_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/text/text.h"
#include "daemon/base/duration.h"

namespace profctl {
namespace {

constexpr size_t kLongestText = 100;

absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

bool IsDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }

bool AllDigits(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), IsDigit);
}

// Seconds since 1970.
std::optional<absl::Time> ParseSeconds(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '.');
  if (parts.size() > 2 || !AllDigits(parts[0])) return std::nullopt;
  int64_t seconds = 0;
  int64_t fraction = 0;
  if (!absl::SimpleAtoi(parts[0], &seconds)) return std::nullopt;
  if (parts.size() == 2) {
    std::string digits(parts[1]);
    if (!AllDigits(parts[1]) || digits.size() > 9) return std::nullopt;
    digits.append(9 - digits.size(), '0');
    if (!absl::SimpleAtoi(digits, &fraction)) return std::nullopt;
  }
  return absl::FromUnixSeconds(seconds) + absl::Nanoseconds(fraction);
}

// Takes a zone off the end: "Z", "UTC", "+01:00", "+0100" or a name such as Europe/Berlin.
bool TakeZone(absl::string_view* text, absl::TimeZone* zone) {
  if (absl::ConsumeSuffix(text, "Z") || absl::ConsumeSuffix(text, "UTC")) {
    absl::ConsumeSuffix(text, " ");
    *zone = absl::UTCTimeZone();
    return true;
  }
  // A sign after the clock; signs of a date come before it.
  const size_t colon = text->find(':');
  const size_t sign = text->find_last_of("+-");
  if (colon != text->npos && sign != text->npos && sign > colon) {
    std::string digits(text->substr(sign + 1));
    if (digits.size() == 5 && digits[2] == ':') digits.erase(2, 1);
    int hours = 0;
    int minutes = 0;
    if (digits.size() != 4 || !AllDigits(digits) ||
        !absl::SimpleAtoi(digits.substr(0, 2), &hours) ||
        !absl::SimpleAtoi(digits.substr(2), &minutes) || hours > 23 || minutes > 59) {
      return false;
    }
    const int offset = (hours * 60 + minutes) * 60;
    *zone = absl::FixedTimeZone((*text)[sign] == '-' ? -offset : offset);
    *text = text->substr(0, sign);
    absl::ConsumeSuffix(text, " ");
    return true;
  }
  const size_t space = text->rfind(' ');
  if (space == text->npos || text->find('/', space) == text->npos) return true;
  const absl::string_view name = text->substr(space + 1);
  // A name in the time zone database, never a path out of it.
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '/' || c == '_' || c == '-' ||
           c == '+';
  });
  if (!plain || !absl::ascii_isalpha(static_cast<unsigned char>(name[0])) ||
      !absl::LoadTimeZone(std::string(name), zone)) {
    return false;
  }
  *text = text->substr(0, space);
  return true;
}

// `day` at `clock`, such as "14:00:05.25"; "": midnight.
std::optional<absl::Time> AtClock(absl::CivilDay day, absl::string_view clock,
                                  const absl::TimeZone& zone) {
  const absl::string_view format =
      std::count(clock.begin(), clock.end(), ':') == 1 ? "%Y-%m-%d %H:%M" : "%Y-%m-%d %H:%M:%E*S";
  if (clock.empty()) return absl::FromCivil(day, zone);
  if (!IsDigit(clock.front()) || !IsDigit(clock.back())) return std::nullopt;
  absl::Time time;
  std::string error;
  const std::string text = absl::StrCat(absl::FormatCivilTime(day), " ", clock);
  if (!absl::ParseTime(format, text, zone, &time, &error)) return std::nullopt;
  return time;
}

// "2026-01-31" or "20260131".
std::optional<absl::CivilDay> ParseDay(absl::string_view text) {
  std::string digits(text);
  if (digits.size() == 10 && digits[4] == '-' && digits[7] == '-') {
    digits.erase(7, 1).erase(4, 1);
  }
  int year = 0;
  int month = 0;
  int day = 0;
  if (digits.size() != 8 || !AllDigits(digits) || !absl::SimpleAtoi(digits.substr(0, 4), &year) ||
      !absl::SimpleAtoi(digits.substr(4, 2), &month) || !absl::SimpleAtoi(digits.substr(6), &day)) {
    return std::nullopt;
  }
  const absl::CivilDay date(year, month, day);
  if (date.month() != month || date.day() != day) return std::nullopt;  // no 31st of June
  return date;
}

std::optional<absl::Time> ParseCalendar(absl::string_view text, const TimeContext& context) {
  absl::TimeZone zone = context.zone;
  if (!TakeZone(&text, &zone)) return std::nullopt;
  const absl::CivilDay today = absl::ToCivilDay(absl::FromUnixNanos(context.now_ns), zone);
  const size_t gap = text.find_first_of(" T");
  const absl::string_view first = text.substr(0, gap);
  const absl::string_view rest = gap == text.npos ? "" : text.substr(gap + 1);
  if (gap != text.npos && rest.empty()) return std::nullopt;
  if (first == "today") return AtClock(today, rest, zone);
  if (first == "yesterday") return AtClock(today - 1, rest, zone);
  if (const std::optional<absl::CivilDay> day = ParseDay(first)) {
    std::string clock(rest);
    if (clock.size() == 6 && AllDigits(clock)) clock.insert(4, ":").insert(2, ":");
    return AtClock(*day, clock, zone);
  }
  if (gap != text.npos || first.find(':') == first.npos) return std::nullopt;
  // No date: the last such time until now, or the first one after `after_ns`.
  if (context.after_ns) {
    const absl::Time after = absl::FromUnixNanos(*context.after_ns);
    const absl::CivilDay day = absl::ToCivilDay(after, zone);
    const std::optional<absl::Time> time = AtClock(day, first, zone);
    return time && *time <= after ? AtClock(day + 1, first, zone) : time;
  }
  const std::optional<absl::Time> time = AtClock(today, first, zone);
  return time && *time > absl::FromUnixNanos(context.now_ns) ? AtClock(today - 1, first, zone)
                                                             : time;
}

std::optional<absl::Time> ParseAny(absl::string_view text, const TimeContext& context) {
  const absl::Time now = absl::FromUnixNanos(context.now_ns);
  if (text.empty() || text.size() > kLongestText) return std::nullopt;
  if (text == "now") return now;
  absl::string_view ago = text;
  if (absl::ConsumeSuffix(&ago, " ago")) {
    const std::optional<absl::Duration> duration = profd::DurationOf({ago.data(), ago.size()});
    if (!duration) return std::nullopt;
    return now - *duration;
  }
  // Eight digits are a day, ten are seconds.
  if (AllDigits(text) && text.size() == 8 && ParseDay(text)) return ParseCalendar(text, context);
  if (const std::optional<absl::Time> time = ParseSeconds(text)) return time;
  return ParseCalendar(text, context);
}

}  // namespace

std::string FormatDuration(int64_t ns) {
  struct Step {
    double least;  // where rounding to three digits would reach 1000 of the smaller unit
    double size;
    const char* unit;
  };
  static constexpr std::array<Step, 6> kSteps = {{
      {47.95 * 3600e9, 86400e9, " d"},
      {3598.5e9, 3600e9, " h"},
      {999.5e9, 60e9, " min"},
      {999.5e6, 1e9, " s"},
      {999.5e3, 1e6, " ms"},
      {1e3, 1e3, " us"},
  }};
  const char* sign = ns < 0 ? "-" : "";
  const double magnitude = std::abs(static_cast<double>(ns));
  for (const Step& step : kSteps) {
    if (magnitude >= step.least) {
      return absl::StrCat(sign, Significant(magnitude / step.size), step.unit);
    }
  }
  return absl::StrFormat("%s%.0f ns", sign, magnitude);
}

namespace {

// `seconds`: their conversion.
std::string FormatIn(const absl::TimeZone& zone, int64_t ns, absl::string_view seconds) {
  const absl::Time time = absl::FromUnixNanos(ns);
  const bool utc = zone.At(time).offset == 0;
  return absl::FormatTime(absl::StrCat("%Y-%m-%dT%H:%M:", seconds, utc ? "Z" : "%Ez"), time, zone);
}

}  // namespace

std::string FormatTime(int64_t ns, const absl::TimeZone& zone) { return FormatIn(zone, ns, "%S"); }

std::string FormatTimeMs(int64_t ns, const absl::TimeZone& zone) {
  return FormatIn(zone, ns, "%E3S");
}

std::string FormatFileTimeUtc(int64_t ns) {
  return absl::FormatTime("%Y%m%dT%H%M%SZ", absl::FromUnixNanos(ns), absl::UTCTimeZone());
}

std::string FormatTimeRfc3339(int64_t ns) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E9SZ", absl::FromUnixNanos(ns), absl::UTCTimeZone());
}

absl::StatusOr<int64_t> ParseDuration(std::string_view text) {
  const absl::StatusOr<int64_t> ns = profd::ParseDuration(text);
  if (ns.ok()) return ns;
  return absl::InvalidArgumentError(
      absl::StrCat("'", CleanName(text), "' ", ns.status().message(),
                   "; use one such as 90s, 5min, 2h, 1h30m or 250ms"));
}

absl::StatusOr<int64_t> ParseTime(std::string_view text, const TimeContext& context) {
  const std::optional<absl::Time> time = ParseAny(Absl(text), context);
  const bool fits = time && *time > absl::UnixEpoch() &&
                    *time < absl::FromUnixNanos(std::numeric_limits<int64_t>::max());
  if (fits) return absl::ToUnixNanos(*time);
  return absl::InvalidArgumentError(absl::StrCat(
      "'", CleanName(text),
      "' is not a time after 1970; use one such as 14:00, yesterday 14:00, 2026-01-31 14:00:05, "
      "2026-01-31T14:00:05+01:00, 1769864700, '5min ago' or now"));
}

}  // namespace profctl
