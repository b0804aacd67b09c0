// What a profile is of, and in which unit.
#ifndef PROFD_CLIENT_KIND_H_
#define PROFD_CLIENT_KIND_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "profd/v1/profiler.pb.h"

namespace profctl {

using profd::v1::ProfileKind;

enum class Unit { kNanoseconds, kBytes };

struct KindInfo {
  ProfileKind kind;
  std::string_view name;  // as in --kind
  Unit unit;
  std::string_view title;    // "Memory allocated", for headings
  std::string_view done;     // "allocated"
  std::string_view events;   // "allocations"
  std::string_view meaning;  // a few words for help
  bool level = false;        // of an instant, the end of the window; not what happened in it
  bool calls = false;        // of calls that are counted themselves: threads have no totals
};

// Every kind there is, in the order of the protocol.
std::span<const KindInfo> AllKinds();
// Off-CPU for a kind that is not set and for one that this client does not know.
const KindInfo& DescribeKind(ProfileKind kind);
std::optional<ProfileKind> ParseKind(std::string_view name);

// "ns", "bytes": as in JSON.
std::string_view UnitName(Unit unit);
// "1.23 s" or "12.3 MiB". Bytes are never negative.
std::string FormatValue(int64_t value, Unit unit);
// "+12.3 MiB", "-4.00 KiB".
std::string FormatGrowth(int64_t bytes);

}  // namespace profctl

#endif  // PROFD_CLIENT_KIND_H_
