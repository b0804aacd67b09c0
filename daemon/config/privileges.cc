#include "daemon/config/privileges.h"

#include <sys/capability.h>
#include <sys/resource.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "daemon/base/capability.h"

namespace profd {
namespace {

struct Need {
  cap_value_t capability;
  const char* name;
  const char* without;  // what does not work without it
};

// docs/operating.md has the same table for users.
constexpr Need kNeeds[] = {
    {CAP_BPF, "CAP_BPF", "kernel programs cannot be loaded"},
    {CAP_PERFMON, "CAP_PERFMON", "kernel programs cannot be attached"},
    {CAP_SYS_PTRACE, "CAP_SYS_PTRACE",
     "modules and resident pages of other users' processes cannot be read"},
    {CAP_CHECKPOINT_RESTORE, "CAP_CHECKPOINT_RESTORE",
     "modules that were deleted or replaced cannot be read"},
    {CAP_SYSLOG, "CAP_SYSLOG", "kernel functions have no names, and the layer wakers is off"},
    {CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH", "modules that are not world-readable are skipped"},
    {CAP_SYS_NICE, "CAP_SYS_NICE", "ticks may be late on a busy machine"},
};

// Needed where each probe is a perf event of its own.
constexpr Need kProbeNeed = {CAP_SYS_ADMIN, "CAP_SYS_ADMIN",
                             "before Linux 6.6, allocators and libcs cannot be probed"};

absl::Status Keep(const UniqueCaps& kept, cap_value_t capability, cap_flag_t set) {
  if (cap_set_flag(kept.get(), set, 1, &capability, CAP_SET) == 0) return absl::OkStatus();
  return ErrnoStatus("keep a capability", errno);
}

}  // namespace

absl::Status DropPrivileges(bool keep_admin) {
  const UniqueCaps now(cap_get_proc());
  const UniqueCaps kept(cap_init());
  if (!now || !kept) return ErrnoStatus("read capabilities", errno);
  for (const Need& need : kNeeds) {
    if (!HasCapability(now, need.capability, CAP_PERMITTED)) continue;
    for (const cap_flag_t set : {CAP_PERMITTED, CAP_EFFECTIVE}) {
      RETURN_IF_ERROR(Keep(kept, need.capability, set));
    }
  }
  if (keep_admin && HasCapability(now, kProbeNeed.capability, CAP_PERMITTED)) {
    RETURN_IF_ERROR(Keep(kept, kProbeNeed.capability, CAP_PERMITTED));
  }
  if (cap_set_proc(kept.get()) != 0) return ErrnoStatus("drop capabilities", errno);
  return absl::OkStatus();
}

std::vector<std::string> MissingFeatures(bool admin_for_probes) {
  std::vector<std::string> missing;
  const UniqueCaps now(cap_get_proc());
  if (!now) return missing;
  const auto look = [&](const Need& need) {
    // DropPrivileges() makes permitted capabilities effective. CAP_SYS_ADMIN does not count as a
    // substitute for the others, because it is dropped.
    if (HasCapability(now, need.capability, CAP_PERMITTED)) return;
    missing.push_back(absl::StrCat(need.without, ": give it ", need.name));
  };
  for (const Need& need : kNeeds) look(need);
  if (admin_for_probes) look(kProbeNeed);
  return missing;
}

void RaiseFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace profd
