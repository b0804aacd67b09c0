// The command line of profctl.
#ifndef PROFD_CLIENT_COMMAND_LINE_CLI_H_
#define PROFD_CLIENT_COMMAND_LINE_CLI_H_

#include <ostream>

#include "client/io/terminal.h"

namespace profctl {

// Runs one command and returns the exit status: 0 success, 1 failure, 2 usage error, 3 a
// stack grew by more than diff --fail-over allows.
int Run(int argc, const char* const* argv, std::ostream& out, std::ostream& err,
        const Terminal& terminal);

}  // namespace profctl

#endif  // PROFD_CLIENT_COMMAND_LINE_CLI_H_
