// Completion scripts for shells.
#ifndef PROFD_CLIENT_USAGE_COMPLETION_H_
#define PROFD_CLIENT_USAGE_COMPLETION_H_

#include <string>

#include "client/usage/usage.h"

namespace profctl {

// Scripts for a shell to load. They need only the shell.
std::string BashCompletion(const CommandUsage& usage);
std::string ZshCompletion(const CommandUsage& usage);
std::string FishCompletion(const CommandUsage& usage);

}  // namespace profctl

#endif  // PROFD_CLIENT_USAGE_COMPLETION_H_
