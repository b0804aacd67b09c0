// The ledgers of a window as a table and as JSON.
#ifndef PROFD_CLIENT_RENDER_THREADS_H_
#define PROFD_CLIENT_RENDER_THREADS_H_

#include <string>
#include <vector>

#include "client/ledger_rows.h"
#include "client/profile.h"

namespace profctl {

// `waits` says which window it is. Times are shares of the row's wall time, rates are per second of
// the window, so that those of all rows add up.
std::string RenderThreadsText(const Profile& waits, const std::vector<LedgerRow>& rows,
                              bool colour);
std::string RenderThreadsJson(const Profile& waits, const std::vector<LedgerRow>& rows);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_THREADS_H_
