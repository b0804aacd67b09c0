// Assembles what is known of processes' memory: the answer to a GetMemory, the line in a Fetch.
#ifndef PROFD_DAEMON_SERVICE_MEMORY_ANSWER_H_
#define PROFD_DAEMON_SERVICE_MEMORY_ANSWER_H_

#include <cstdint>
#include <vector>

#include "daemon/collect/control.h"
#include "daemon/memory/memory_timeline.h"
#include "daemon/profile/identity.h"
#include "daemon/service/answer.h"
#include "daemon/service/frame_names.h"
#include "daemon/service/request.h"
#include "daemon/service/sources.h"
#include "daemon/store/store.h"
#include "profd/v1/profiler.pb.h"

namespace profd {

// What an answer to a GetMemory is made of.
struct MemoryAnswer {
  const HostInfo& host;
  const ServiceSources& sources;
  const MemoryPlan& plan;
  std::vector<ProcessHistory> histories;
  MergedProfile profile;  // that window of the same processes; empty if only histories know them
  int64_t wall_offset_ns = 0;
  FrameNames* names = nullptr;
};
void FillMemory(MemoryAnswer answer, v1::GetMemoryResponse* response);

// The processes with what their threads allocated and freed in the window. `profile` is that window
// of the same processes. Returns who is listed, in the order of the answer.
std::vector<ProcessId> FillProcesses(std::vector<ProcessHistory> histories,
                                     const MergedProfile& profile,
                                     const std::vector<AllocatorUse>& allocators,
                                     int64_t wall_offset_ns, v1::GetMemoryResponse* response);

// The CPU quota at the end of the window, and how it ran out since the last reading before it.
// Leaves the process as it is if there is no quota.
void FillQuota(const ProcessHistory& history, int64_t wall_offset_ns, v1::Process* process);

// `all_threads`: none of the processes' threads are left out of `profile`.
v1::MemoryLine MemoryLineOf(const std::vector<ProcessHistory>& histories,
                            const MergedProfile& profile, bool all_threads);

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_MEMORY_ANSWER_H_
