// The perf maps and jitdumps of processes, as /proc leads to them.
#ifndef PROFD_DAEMON_SYMBOLIZE_PERF_MAPS_H_
#define PROFD_DAEMON_SYMBOLIZE_PERF_MAPS_H_

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/fd.h"
#include "daemon/base/status.h"
#include "daemon/profile/identity.h"

namespace profd {

struct PerfMap {
  // 0 if there is none. Changes when the map does: names from before are void then.
  uint64_t version = 0;
  UniqueFd fd = {};      // not ok() after the process ended
  bool is_dump = false;  // it is a jitdump
};

// Looks for /tmp/perf-PID.map in the root directory of the process, by its PID in its own PID
// namespace; without one, for jit-PID.dump where the process maps it. The file must be a regular
// one that belongs to the process's user, and no symbolic link may lead to it. Tells the log why
// one is not used, once for each process, and only for the first few. Not thread-safe.
class PerfMaps {
 public:
  explicit PerfMaps(std::string proc = "/proc") : proc_(std::move(proc)) {}

  // The map as it is now. After the process ended, the version of the last look.
  PerfMap Look(const ProcessId& process);

  // Names for `addresses` (ascending, each once) from the map of a process, "" for none. Lowers
  // `*bytes_left` by what it reads. ResourceExhausted, and nothing is read, if that would be more.
  // NotFound if the map is not open.
  absl::StatusOr<std::vector<std::string>> Find(const ProcessId& process, const PerfMap& map,
                                                std::span<const uint64_t> addresses,
                                                uint64_t* bytes_left);

 private:
  struct State {
    uint64_t version = 0;
    bool reported = false;
    uint64_t used = 0;
  };

  State& StateOf(const ProcessId& process);
  absl::StatusOr<PerfMap> Open(const ProcessId& process) const;
  absl::StatusOr<std::vector<std::string>> FindInDump(const ProcessId& process, const PerfMap& map,
                                                      std::span<const uint64_t> addresses,
                                                      uint64_t* bytes_left);
  // Once for each process.
  void Report(const ProcessId& process, const std::string& what);

  const std::string proc_;
  absl::flat_hash_map<ProcessId, State> states_;
  uint64_t uses_ = 0;
  int reports_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SYMBOLIZE_PERF_MAPS_H_
