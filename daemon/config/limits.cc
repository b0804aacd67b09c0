#include "daemon/config/limits.h"

#include <unistd.h>

#include <algorithm>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "bpf/abi.h"

namespace profd {
namespace {

enum class Unit { kEntries, kBytes, kRingBytes };

struct Limit {
  const char* name;
  uint64_t Limits::* value;
  Unit unit;
  uint64_t least, most;
  const char* help;
};

constexpr uint64_t kMostEntries = 1 << 20;
// Each has a descriptor or two.
constexpr uint64_t kMostModules = 1 << 16;
constexpr uint64_t kKiB = 1 << 10, kMiB = 1 << 20, kGiB = 1 << 30;

constexpr Limit kLimits[] = {
    {"counters", &Limits::counters, Unit::kEntries, 1, kMostEntries,
     "waits, samples of running code, disk requests, wakers and switches by thread and stack, "
     "between "
     "two drains"},
    {"known-stacks", &Limits::known_stacks, Unit::kEntries, 1, kMostEntries,
     "stacks that profd has already received"},
    {"heap-counters", &Limits::heap_counters, Unit::kEntries, 1, kMostEntries,
     "allocations and mapping calls by thread and stack, between two drains"},
    {"malloc-stacks", &Limits::malloc_stacks, Unit::kEntries, 1, kMostEntries,
     "calls to glibc's malloc by thread and stack, in a burst"},
    {"malloc-threads", &Limits::malloc_threads, Unit::kEntries, 1, kMostEntries,
     "threads in a burst"},
    {"exits", &Limits::exits, Unit::kEntries, 1, kMostEntries,
     "final accounts of threads that exited while the ring was full"},
    {"modules", &Limits::modules, Unit::kEntries, 1, kMostModules,
     "files that targets map as code at one time"},
    {"ring", &Limits::ring, Unit::kRingBytes, 4 * kKiB, kGiB,
     "records from the kernel to profd; a power of two"},
    {"rules", &Limits::rules, Unit::kBytes, 0, 16 * kGiB, "unwind rules"},
    {"store", &Limits::store, Unit::kBytes, 4 * kKiB, 64 * kGiB, "the profile of the last hour"},
    {"timeline", &Limits::timeline, Unit::kBytes, 4 * kKiB, kGiB,
     "the memory timeline of the last hour"},
};

std::string Text(const Limit& limit, uint64_t value) {
  if (limit.unit == Unit::kEntries) return absl::StrCat(value);
  if (value != 0 && value % kGiB == 0) return absl::StrCat(value / kGiB, "G");
  if (value != 0 && value % kMiB == 0) return absl::StrCat(value / kMiB, "M");
  if (value != 0 && value % kKiB == 0) return absl::StrCat(value / kKiB, "K");
  return absl::StrCat(value);
}

bool ParseValue(absl::string_view text, bool bytes, uint64_t* value) {
  uint64_t unit = 1;
  if (bytes && absl::ConsumeSuffix(&text, "K")) {
    unit = kKiB;
  } else if (bytes && absl::ConsumeSuffix(&text, "M")) {
    unit = kMiB;
  } else if (bytes && absl::ConsumeSuffix(&text, "G")) {
    unit = kGiB;
  }
  // SimpleAtoi also takes a sign and spaces.
  if (!absl::c_all_of(text, absl::ascii_isdigit) || !absl::SimpleAtoi(text, value) ||
      *value > UINT64_MAX / unit) {
    return false;
  }
  *value *= unit;
  return true;
}

}  // namespace

absl::Status SetLimit(const std::string& text, Limits* limits) {
  const size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  const auto* limit = std::find_if(std::begin(kLimits), std::end(kLimits),
                                   [&](const Limit& l) { return name == l.name; });
  if (equals == std::string::npos || limit == std::end(kLimits)) {
    std::vector<std::string> names;
    for (const Limit& l : kLimits) names.push_back(l.name);
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is not a limit; write NAME=VALUE with one of ",
                     absl::StrJoin(names, ", ")));
  }
  const bool bytes = limit->unit != Unit::kEntries;
  uint64_t value = 0;
  if (!ParseValue(absl::string_view(text).substr(equals + 1), bytes, &value)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\": the value must be a number",
                     bytes ? " of bytes, optionally with K, M or G" : ""));
  }
  if (value < limit->least || value > limit->most) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\": must be between ",
                                                   Text(*limit, limit->least), " and ",
                                                   Text(*limit, limit->most)));
  }
  if (limit->unit == Unit::kRingBytes &&
      ((value & (value - 1)) != 0 || value % static_cast<uint64_t>(getpagesize()) != 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\": must be a power of two and at least one page"));
  }
  limits->*(limit->value) = value;
  return absl::OkStatus();
}

std::string DescribeLimits() {
  const Limits defaults;
  std::string text;
  for (const Limit& limit : kLimits) {
    absl::StrAppendFormat(&text, "  %-15s %s; %s to %s, default %s\n", limit.name, limit.help,
                          Text(limit, limit.least), Text(limit, limit.most),
                          Text(limit, defaults.*(limit.value)));
  }
  return text;
}

}  // namespace profd
