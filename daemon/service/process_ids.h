// Finds the process of a thread among those of an answer.
#ifndef PROFD_DAEMON_SERVICE_PROCESS_IDS_H_
#define PROFD_DAEMON_SERVICE_PROCESS_IDS_H_

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "daemon/memory/memory_timeline.h"
#include "daemon/profile/identity.h"
#include "daemon/profile/profile.h"

namespace profd {

std::vector<ProcessId> IdsOf(const std::vector<ProcessHistory>& histories);

// Processes that had one PID in turn are told apart by their start.
class ProcessIds {
 public:
  explicit ProcessIds(const std::vector<ProcessId>& processes);

  // The youngest with this PID if its own start is none of theirs. If no process has this PID, an
  // id that no process has.
  ProcessId Of(const ThreadInfo& thread) const;
  // No other with this PID started later.
  bool IsYoungest(const ProcessId& id) const;

 private:
  std::set<ProcessId> known_;
  std::map<int32_t, int64_t> youngest_;  // start by PID
};

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_PROCESS_IDS_H_
