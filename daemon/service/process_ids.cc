#include "daemon/service/process_ids.h"

#include <algorithm>

namespace profd {

std::vector<ProcessId> IdsOf(const std::vector<ProcessHistory>& histories) {
  std::vector<ProcessId> ids;
  ids.reserve(histories.size());
  for (const ProcessHistory& history : histories) {
    ids.push_back({history.process.pid, history.process.start_ns});
  }
  return ids;
}

ProcessIds::ProcessIds(const std::vector<ProcessId>& processes)
    : known_(processes.begin(), processes.end()) {
  for (const ProcessId& id : processes) {
    int64_t& start_ns = youngest_[id.pid];
    start_ns = std::max(start_ns, id.start_ns);
  }
}

ProcessId ProcessIds::Of(const ThreadInfo& thread) const {
  const ProcessId id = ProcessIdOf(thread);
  const auto youngest = youngest_.find(id.pid);
  if (known_.contains(id) || youngest == youngest_.end()) return id;
  return {id.pid, youngest->second};
}

bool ProcessIds::IsYoungest(const ProcessId& id) const {
  const auto youngest = youngest_.find(id.pid);
  return youngest != youngest_.end() && youngest->second == id.start_ns;
}

}  // namespace profd
