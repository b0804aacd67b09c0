// The command line of profctl.
#ifndef PROFD_CLIENT_CLI_H_
#define PROFD_CLIENT_CLI_H_

#include <ostream>

#include "client/terminal.h"

namespace profctl {

// Runs one command and returns the exit status: 0 done, 1 failed, 2 the command line is wrong.
int Run(int argc, const char* const* argv, std::ostream& out, std::ostream& err,
        const Terminal& terminal);

}  // namespace profctl

#endif  // PROFD_CLIENT_CLI_H_
