// profctl status: what profd watches, lacks, loses and costs.
#ifndef PROFD_CLIENT_COMMANDS_STATUS_H_
#define PROFD_CLIENT_COMMANDS_STATUS_H_

#include <ostream>
#include <string>

#include "absl/status/status.h"

namespace profctl {

struct StatusOptions {
  std::string server;
  bool json = false;
  bool colour = false;
  bool names = false;  // add how functions got their names; this asks for a profile
};

// The error is one line.
absl::Status PrintStatus(const StatusOptions& options, std::ostream& out);

}  // namespace profctl

#endif  // PROFD_CLIENT_COMMANDS_STATUS_H_
