// What processes and modules are, beside their numbers for a while: PIDs are used again.
#ifndef PROFD_DAEMON_PROFILE_IDENTITY_H_
#define PROFD_DAEMON_PROFILE_IDENTITY_H_

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/profile/profile.h"

namespace profd {

// One process of this boot. Together with the boot's id it is one process for ever.
struct ProcessId {
  int32_t pid = 0;
  int64_t start_ns = 0;  // CLOCK_BOOTTIME, in steps of 10 ms as in /proc; 0: not known
  friend auto operator<=>(const ProcessId&, const ProcessId&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const ProcessId& p) {
    return H::combine(std::move(h), p.pid, p.start_ns);
  }
};

ProcessId ProcessIdOf(const ThreadInfo& info);
// /proc has start times in steps of 10 ms.
int64_t StartAsInProc(int64_t start_ns);

// A module's file. With the build-id, else with the headers, it is the same file for ever.
struct ModuleIdentity {
  std::string path;      // as the target saw it; may be gone by now
  std::string build_id;  // hex; empty when the file has none
  // Of a file without a build-id: its size and a checksum of its headers.
  std::string headers_id = {};
  friend bool operator==(const ModuleIdentity&, const ModuleIdentity&) = default;
};

// By their ids in frames.
using ModuleIdentities = std::map<ModuleId, std::shared_ptr<const ModuleIdentity>>;

// The boot that a recording is of. With it PIDs, start times and addresses in the kernel last.
struct BootIdentity {
  std::string boot_id;
  std::string kernel_build_id;  // hex; empty: not known
  uint64_t kernel_text = 0;     // where the code of the kernel's image began; 0: not known
  friend bool operator==(const BootIdentity&, const BootIdentity&) = default;
};

// The id of the container whose cgroup this is: the last 64 hex digits in a row, as Docker, Podman,
// containerd and CRI-O put them into the path. Empty: none.
std::string ContainerIdOf(std::string_view cgroup);

}  // namespace profd

#endif  // PROFD_DAEMON_PROFILE_IDENTITY_H_
