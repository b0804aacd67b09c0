// Capabilities: which are needed, dropped and missing.
#ifndef PROFD_DAEMON_CONFIG_PRIVILEGES_H_
#define PROFD_DAEMON_CONFIG_PRIVILEGES_H_

#include <string>
#include <vector>

#include "daemon/base/status.h"

namespace profd {

// Drops every capability that no feature needs, for the calling thread and threads that it starts
// later. `keep_admin`: CAP_SYS_ADMIN stays permitted, and is raised to attach probes and to open
// clocks.
absl::Status DropPrivileges(bool keep_admin);

// One line per feature that will not work because a capability is missing, with the remedy. Assumes
// that DropPrivileges() is called, too. `admin_for_probes`: they take CAP_SYS_ADMIN.
std::vector<std::string> MissingFeatures(bool admin_for_probes);

// Raises the limit on open files to its maximum: profd keeps one file open per module.
void RaiseFileLimit();

}  // namespace profd

#endif  // PROFD_DAEMON_CONFIG_PRIVILEGES_H_
