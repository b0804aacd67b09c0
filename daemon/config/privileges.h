// Capabilities: which are needed, dropped and missing.
#ifndef PROFD_DAEMON_CONFIG_PRIVILEGES_H_
#define PROFD_DAEMON_CONFIG_PRIVILEGES_H_

#include <string>
#include <vector>

#include "daemon/base/status.h"

namespace profd {

// Drops every capability that no feature needs, for the calling thread and threads that it starts
// later. `admin_for_probes`: CAP_SYS_ADMIN stays permitted, and is raised to attach probes.
absl::Status DropPrivileges(bool admin_for_probes);

// One line per feature that will not work because a capability is missing, with the remedy. Assumes
// that DropPrivileges() is called with the same argument.
std::vector<std::string> MissingFeatures(bool admin_for_probes);

// Raises the limit on open files to its maximum: profd keeps one file open per module.
void RaiseFileLimit();

}  // namespace profd

#endif  // PROFD_DAEMON_CONFIG_PRIVILEGES_H_
