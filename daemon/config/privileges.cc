#include "daemon/config/privileges.h"

#include <sys/capability.h>
#include <sys/resource.h>

#include <cerrno>
#include <memory>
#include <type_traits>

#include "absl/strings/str_cat.h"

namespace profd {
namespace {

struct Need {
  cap_value_t capability;
  const char* name;
  const char* without;  // what does not work without it
};

// docs/operating.md has the same table for people.
constexpr Need kNeeds[] = {
    {CAP_BPF, "CAP_BPF", "kernel programs cannot be loaded"},
    {CAP_PERFMON, "CAP_PERFMON", "kernel programs cannot be attached"},
    {CAP_SYS_PTRACE, "CAP_SYS_PTRACE", "modules of other users' processes cannot be read, nor which of their pages are resident"},
    {CAP_CHECKPOINT_RESTORE, "CAP_CHECKPOINT_RESTORE",
     "modules that were deleted or replaced cannot be read"},
    {CAP_SYSLOG, "CAP_SYSLOG", "kernel functions have no names"},
    {CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH",
     "modules that are not readable by all are skipped"},
    {CAP_SYS_NICE, "CAP_SYS_NICE", "ticks may come late on a busy machine"},
};

struct CapFree {
  void operator()(cap_t caps) const { cap_free(caps); }
};
using UniqueCaps = std::unique_ptr<std::remove_pointer_t<cap_t>, CapFree>;

}  // namespace

absl::Status DropPrivileges() {
  const UniqueCaps now(cap_get_proc());
  const UniqueCaps kept(cap_init());
  if (!now || !kept) return ErrnoStatus("read capabilities", errno);
  for (const Need& need : kNeeds) {
    cap_flag_value_t permitted = CAP_CLEAR;
    if (cap_get_flag(now.get(), need.capability, CAP_PERMITTED, &permitted) != 0 ||
        permitted != CAP_SET) {
      continue;
    }
    for (const cap_flag_t flag : {CAP_PERMITTED, CAP_EFFECTIVE}) {
      if (cap_set_flag(kept.get(), flag, 1, &need.capability, CAP_SET) != 0) {
        return ErrnoStatus("keep a capability", errno);
      }
    }
  }
  if (cap_set_proc(kept.get()) != 0) return ErrnoStatus("drop capabilities", errno);
  return absl::OkStatus();
}

std::vector<std::string> MissingFeatures() {
  std::vector<std::string> missing;
  const UniqueCaps now(cap_get_proc());
  if (!now) return missing;
  for (const Need& need : kNeeds) {
    cap_flag_value_t effective = CAP_CLEAR;
    cap_flag_value_t admin = CAP_CLEAR;
    (void)cap_get_flag(now.get(), need.capability, CAP_EFFECTIVE, &effective);
    (void)cap_get_flag(now.get(), CAP_SYS_ADMIN, CAP_EFFECTIVE, &admin);
    if (effective != CAP_SET && admin != CAP_SET) {
      missing.push_back(absl::StrCat(need.without, ": give it ", need.name));
    }
  }
  return missing;
}

void RaiseFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace profd
