// Rules about the exact times of threads and processes.
#ifndef PROFD_CLIENT_RENDER_LEDGER_FINDINGS_H_
#define PROFD_CLIENT_RENDER_LEDGER_FINDINGS_H_

#include <vector>

#include "client/answer/view.h"
#include "profd/v1/profiler.pb.h"

namespace profctl {

// The CPU quota that held its threads back for longest. Whatever else is slow may be so because of
// it.
void FindThrottling(const View& view, std::vector<profd::v1::Finding>& findings);

// Threads that could run and had no CPU. The view has threads.
void FindDelay(const View& view, std::vector<profd::v1::Finding>& findings);

// Threads that cannot do more without a second one.
void FindBusy(const View& view, std::vector<profd::v1::Finding>& findings);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_LEDGER_FINDINGS_H_
