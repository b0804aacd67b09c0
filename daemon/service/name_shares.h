// How much of an answer's weight has names, by how they were found.
#ifndef PROFD_DAEMON_SERVICE_NAME_SHARES_H_
#define PROFD_DAEMON_SERVICE_NAME_SHARES_H_

#include "daemon/profile/profile.h"
#include "daemon/service/named_stacks.h"
#include "daemon/service/request.h"
#include "profd/v1/profiler.pb.h"

namespace profd {

// Adds Profile.name_shares for each sample type of the plan.
void FillNameShares(const FetchPlan& plan, const MergedProfile& profile, const NamedStacks& stacks,
                    v1::Profile* out);

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_NAME_SHARES_H_
