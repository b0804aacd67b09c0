// The cost table: what every account has cost, by who pays.
#ifndef PROFD_DAEMON_COLLECT_COST_TABLE_H_
#define PROFD_DAEMON_COLLECT_COST_TABLE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/profile/cost.h"
#include "daemon/source/source.h"

namespace profd {

// The rows of all sources.
std::vector<CostRow> CostsOf(const std::vector<std::unique_ptr<Source>>& sources);

// Sums the rows as answers tell of them. An account that has no field there is in the sums alone.
CollectorCost SumCosts(const std::vector<CostRow>& rows);

// In the path of the targets, ns, without what comes when profd chose it to.
int64_t UnplannedInPathNs(const std::vector<CostRow>& rows);

}  // namespace profd

#endif  // PROFD_DAEMON_COLLECT_COST_TABLE_H_
