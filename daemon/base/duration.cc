#include "daemon/base/duration.h"

#include <algorithm>
#include <array>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace profd {
namespace {

constexpr absl::Duration kLongestDuration = absl::Hours(24 * 3653);
constexpr size_t kLongestText = 100;

bool IsDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }

struct DurationUnit {
  std::string_view name;
  const char* absl_name;  // as absl::ParseDuration has it
  int of_it = 1;          // in absl's unit
};

constexpr std::array<DurationUnit, 26> kUnits = {{
    {"ns", "ns"},        {"us", "us"},     {"µs", "us"},      {"ms", "ms"},    {"msec", "ms"},
    {"s", "s"},          {"sec", "s"},     {"secs", "s"},     {"second", "s"}, {"seconds", "s"},
    {"m", "m"},          {"min", "m"},     {"mins", "m"},     {"minute", "m"}, {"minutes", "m"},
    {"h", "h"},          {"hr", "h"},      {"hrs", "h"},      {"hour", "h"},   {"hours", "h"},
    {"d", "h", 24},      {"day", "h", 24}, {"days", "h", 24}, {"w", "h", 168}, {"week", "h", 168},
    {"weeks", "h", 168},
}};

// Takes a piece such as "1.5 min" off the front; none if there is none.
std::optional<absl::Duration> TakePiece(absl::string_view* text) {
  size_t digits = 0;
  while (digits < text->size() && (IsDigit((*text)[digits]) || (*text)[digits] == '.')) ++digits;
  const absl::string_view number = text->substr(0, digits);
  if (number.empty() || !IsDigit(number.front()) || !IsDigit(number.back())) return std::nullopt;
  text->remove_prefix(digits);
  if (absl::StartsWith(*text, " ")) text->remove_prefix(1);
  size_t letters = 0;
  while (letters < text->size() && !IsDigit((*text)[letters]) && (*text)[letters] != ' ') ++letters;
  const std::string_view name(text->data(), letters);
  const auto unit = std::find_if(kUnits.begin(), kUnits.end(), [&](const DurationUnit& candidate) {
    return candidate.name == name;
  });
  absl::Duration piece;
  if (unit == kUnits.end() || !absl::ParseDuration(absl::StrCat(number, unit->absl_name), &piece)) {
    return std::nullopt;
  }
  text->remove_prefix(letters);
  return piece * unit->of_it;
}

}  // namespace

std::optional<absl::Duration> DurationOf(std::string_view text) {
  if (text.size() > kLongestText) return std::nullopt;
  absl::string_view rest(text.data(), text.size());
  absl::Duration sum;
  do {
    const std::optional<absl::Duration> piece = TakePiece(&rest);
    if (!piece) return std::nullopt;
    sum += *piece;
    if (rest.size() > 1 && absl::StartsWith(rest, " ")) rest.remove_prefix(1);
  } while (!rest.empty());
  return sum;
}

absl::StatusOr<int64_t> ParseDuration(std::string_view text) {
  const std::optional<absl::Duration> duration = DurationOf(text);
  if (!duration) return absl::InvalidArgumentError("is not a duration");
  if (*duration > kLongestDuration) return absl::InvalidArgumentError("is longer than ten years");
  return absl::ToInt64Nanoseconds(*duration);
}

}  // namespace profd
