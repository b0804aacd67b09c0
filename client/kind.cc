#include "client/kind.h"

#include <algorithm>
#include <array>

#include "client/text.h"

namespace profctl {
namespace {

constexpr std::array<KindInfo, 8> kKinds = {{
    {profd::v1::PROFILE_KIND_OFFCPU, "offcpu", Unit::kNanoseconds, "Off-CPU time", "not running",
     "waits", "time not running, by what was waited for"},
    {profd::v1::PROFILE_KIND_ALLOC, "alloc", Unit::kBytes, "Memory allocated", "allocated",
     "allocations", "memory allocated in the window, bytes"},
    {profd::v1::PROFILE_KIND_FREE, "free", Unit::kBytes, "Memory freed", "freed", "frees",
     "memory freed in the window, bytes, by the stack that freed it"},
    {profd::v1::PROFILE_KIND_INUSE, "inuse", Unit::kBytes, "Memory in use", "in use",
     "live objects", "memory in use at the end of the window, by the stack that allocated it",
     true},
    {profd::v1::PROFILE_KIND_RESIDENT, "rss", Unit::kBytes, "Resident memory", "resident",
     "page faults", "memory resident at the end of the window, by the stack that touched it first",
     true},
    {profd::v1::PROFILE_KIND_MAPPED, "mapped", Unit::kBytes, "Address space mapped", "mapped",
     "mapping calls", "private memory mapped by mmap, mremap and brk, bytes of addresses", false,
     true},
    {profd::v1::PROFILE_KIND_UNMAPPED, "unmapped", Unit::kBytes, "Address space unmapped",
     "unmapped", "mapping calls", "the same given up, by munmap, mremap and brk", false, true},
    {profd::v1::PROFILE_KIND_RETURNED, "returned", Unit::kBytes, "Memory handed back", "returned",
     "mapping calls", "ranges whose pages were handed back by madvise, their addresses kept", false,
     true},
}};

}  // namespace

std::span<const KindInfo> AllKinds() { return kKinds; }

const KindInfo& DescribeKind(ProfileKind kind) {
  const auto it = std::find_if(kKinds.begin(), kKinds.end(),
                               [&](const KindInfo& info) { return info.kind == kind; });
  return it == kKinds.end() ? kKinds.front() : *it;
}

std::optional<ProfileKind> ParseKind(std::string_view name) {
  const auto it = std::find_if(kKinds.begin(), kKinds.end(),
                               [&](const KindInfo& info) { return info.name == name; });
  if (it == kKinds.end()) return std::nullopt;
  return it->kind;
}

std::string_view UnitName(Unit unit) { return unit == Unit::kBytes ? "bytes" : "ns"; }

std::string FormatValue(int64_t value, Unit unit) {
  switch (unit) {
    case Unit::kNanoseconds:
      return FormatDuration(value);
    case Unit::kBytes:
      return FormatBytes(static_cast<uint64_t>(std::max<int64_t>(value, 0)));
  }
  return "";
}

std::string FormatGrowth(int64_t bytes) {
  const uint64_t size =
      bytes < 0 ? uint64_t{0} - static_cast<uint64_t>(bytes) : static_cast<uint64_t>(bytes);
  return (bytes < 0 ? "-" : "+") + FormatBytes(size);
}

}  // namespace profctl
