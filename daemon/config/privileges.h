// Capabilities: what is needed, what is dropped, what is missing.
#ifndef PROFD_DAEMON_CONFIG_PRIVILEGES_H_
#define PROFD_DAEMON_CONFIG_PRIVILEGES_H_

#include <string>
#include <vector>

#include "daemon/base/status.h"

namespace profd {

// Gives up every capability that no feature needs. Of the calling thread and those it starts later.
// `admin_for_probes`: CAP_SYS_ADMIN stays permitted, to be raised where probes are put in.
absl::Status DropPrivileges(bool admin_for_probes);

// A line for each feature that will not work for want of a capability, with its remedy.
// As DropPrivileges() will leave it.
std::vector<std::string> MissingFeatures(bool admin_for_probes);

// Raises the limit of open files to what is allowed: a file is held open for every module.
void RaiseFileLimit();

}  // namespace profd

#endif  // PROFD_DAEMON_CONFIG_PRIVILEGES_H_
