// The ledgers of a window as a table and as JSON.
#ifndef PROFD_CLIENT_RENDER_THREADS_H_
#define PROFD_CLIENT_RENDER_THREADS_H_

#include <string>
#include <vector>

#include "client/analysis/ledger_rows.h"
#include "client/answer/profile.h"
#include "nlohmann/json_fwd.hpp"

namespace profctl {

// `waits` says which window it is. Times are shares of the row's wall time, rates are per second of
// the window, so that those of all rows add up.
std::string RenderThreadsText(const Profile& waits, const std::vector<LedgerRow>& rows,
                              bool colour);
// "lock 74.4%" of the wall time: the longest of the waits. Empty without any.
std::string MainReason(const LedgerRow& row);
// A row with all that is known of it.
nlohmann::ordered_json LedgerRowJson(const LedgerRow& row);
std::string RenderThreadsJson(const Profile& waits, const std::vector<LedgerRow>& rows);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_THREADS_H_
