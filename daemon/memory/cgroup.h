// The cgroups that a process's memory and CPU time are charged to, and their files. Versions 1
// and 2.
#ifndef PROFD_DAEMON_MEMORY_CGROUP_H_
#define PROFD_DAEMON_MEMORY_CGROUP_H_

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace profd {

enum class CgroupController : uint8_t { kMemory, kCpu };

struct CgroupPlace {
  int version = 0;   // 1 or 2
  std::string path;  // as our cgroup namespace names it
  CgroupController controller = CgroupController::kMemory;
  friend auto operator<=>(const CgroupPlace&, const CgroupPlace&) = default;
};

// From the text of /proc/PID/cgroup. Version 1 if the controller is a version 1 controller, else
// version 2.
std::optional<CgroupPlace> ParseCgroup(std::string_view text,
                                       CgroupController controller = CgroupController::kMemory);

// The cgroup file systems in our mount namespace.
class CgroupMounts {
 public:
  // From the text of /proc/self/mountinfo; skips malformed lines.
  static CgroupMounts Parse(std::string_view mountinfo);

  // The directory of a cgroup and its visible ancestors, innermost first. Empty if it is not
  // visible here, for example outside of our cgroup namespace.
  std::vector<std::string> DirectoriesOf(const CgroupPlace& place) const;

 private:
  struct Mount {
    int version = 0;
    std::string controllers;  // version 1: what super options say, separated by commas
    std::string root;         // the cgroup that is mounted
    std::string point;        // where
  };
  std::vector<Mount> mounts_;
};

// Values from a cgroup's files; absent if a file is missing.
struct CgroupFigures {
  std::optional<int64_t> current;  // bytes
  // Bytes: the tightest limit of the cgroup and its visible ancestors; absent: no limit.
  std::optional<int64_t> limit;
  std::optional<int64_t> oom_kills;   // since the cgroup was created
  std::optional<int64_t> limit_hits;  // how often usage reached the limit: failcnt, or max
  std::optional<int64_t> high_hits;   // memory.high; version 2
};
// `directories` as DirectoriesOf gives them.
CgroupFigures ReadCgroup(int version, const std::vector<std::string>& directories);

// How the CPU quota of a cgroup ran out. Absent: the file is missing.
struct CpuQuota {
  std::optional<int64_t> millicpus;  // thousandths of a CPU; absent: no quota
  // The cgroup with the quota: 0 is the process's own, 1 the one above it, and so on.
  std::optional<int64_t> level;
  // Since that cgroup was created: periods in which a thread could run; those in which the quota
  // ran out; how long that held threads back, summed over CPUs.
  std::optional<int64_t> periods, throttled_periods, throttled_ns;
};
// The tightest quota of the cgroup and its visible ancestors; without any, the numbers of its own.
CpuQuota ReadCpuQuota(int version, const std::vector<std::string>& directories);

}  // namespace profd

#endif  // PROFD_DAEMON_MEMORY_CGROUP_H_
