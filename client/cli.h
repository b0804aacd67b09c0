// The command line of profctl.
#ifndef PROFD_CLIENT_CLI_H_
#define PROFD_CLIENT_CLI_H_

#include <ostream>

namespace profctl {

// Runs one command and returns the exit status: 0 done, 1 failed, 2 the command line is wrong.
// `colour`: `out` is a terminal that shows it.
int Run(int argc, const char* const* argv, std::ostream& out, std::ostream& err, bool colour);

}  // namespace profctl

#endif  // PROFD_CLIENT_CLI_H_
