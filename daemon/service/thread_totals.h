// What a thread did in a window, as a message: its times, waits and counts.
#ifndef PROFD_DAEMON_SERVICE_THREAD_TOTALS_H_
#define PROFD_DAEMON_SERVICE_THREAD_TOTALS_H_

#include "daemon/profile/estimator.h"
#include "daemon/store/store.h"
#include "profd/v1/profiler.pb.h"

namespace profd {

// All but its process, its group, idle waits and memory. `estimate`: its ledger and waits.
void FillThread(const MergedThread& merged, const EstimatedThread& estimate, v1::Thread* thread);

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_THREAD_TOTALS_H_
