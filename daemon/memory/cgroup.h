// The cgroup that a process's memory is charged to, and what it says. Versions 1 and 2.
#ifndef PROFD_DAEMON_MEMORY_CGROUP_H_
#define PROFD_DAEMON_MEMORY_CGROUP_H_

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace profd {

struct CgroupPlace {
  int version = 0;   // 1 or 2
  std::string path;  // as our cgroup namespace names it
  friend auto operator<=>(const CgroupPlace&, const CgroupPlace&) = default;
};

// From the text of /proc/PID/cgroup. Version 1 where the memory controller is mounted as such, else
// version 2.
std::optional<CgroupPlace> ParseCgroup(std::string_view text);

// The cgroup file systems that our mount namespace has.
class CgroupMounts {
 public:
  // From the text of /proc/self/mountinfo; lines that are none are passed over.
  static CgroupMounts Parse(std::string_view mountinfo);

  // The directory of a cgroup and those above it that can be seen, innermost first. Empty: not
  // visible here, as with one outside of our cgroup namespace.
  std::vector<std::string> DirectoriesOf(const CgroupPlace& place) const;

 private:
  struct Mount {
    int version = 0;
    std::string root;   // the cgroup that is mounted
    std::string point;  // where
  };
  std::vector<Mount> mounts_;
};

// What the files of a cgroup say; absent: not there.
struct CgroupFigures {
  std::optional<int64_t> current;  // bytes
  // Bytes: the tightest of the cgroup and those above it that can be seen; absent: none.
  std::optional<int64_t> limit;
  std::optional<int64_t> oom_kills;   // processes killed for want of memory, since it was made
  std::optional<int64_t> limit_hits;  // how often usage met the limit: failcnt, or max
  std::optional<int64_t> high_hits;   // memory.high; version 2
};
// `directories` as DirectoriesOf gives them.
CgroupFigures ReadCgroup(int version, const std::vector<std::string>& directories);

}  // namespace profd

#endif  // PROFD_DAEMON_MEMORY_CGROUP_H_
