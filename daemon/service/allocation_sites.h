// The functions of processes that allocated most.
#ifndef PROFD_DAEMON_SERVICE_ALLOCATION_SITES_H_
#define PROFD_DAEMON_SERVICE_ALLOCATION_SITES_H_

#include <cstddef>
#include <vector>

#include "daemon/profile/identity.h"
#include "daemon/service/frame_names.h"
#include "daemon/service/process_ids.h"
#include "daemon/store/store.h"
#include "profd/v1/profiler.pb.h"

namespace profd {

// Gives the first processes of the answer, if they allocated, at most `most` sites each. `listed`:
// who the processes of the answer are, in its order; `ids` knows others, too. The bursts of
// `profile` are scaled.
void FillSites(const MergedProfile& profile, const ProcessIds& ids,
               const std::vector<ProcessId>& listed, size_t most, FrameNames* names,
               v1::GetMemoryResponse* response);

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_ALLOCATION_SITES_H_
