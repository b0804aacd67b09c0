// `profctl threads`: the ledgers of a window as a table.
#ifndef PROFD_CLIENT_COMMANDS_THREADS_H_
#define PROFD_CLIENT_COMMANDS_THREADS_H_

#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "client/analysis/ledger_rows.h"
#include "profd/v1/profiler.pb.h"

namespace profctl {

struct ThreadsOptions {
  std::string server;
  profd::v1::FetchRequest request;  // window, targets and threads
  ThreadSort sort = ThreadSort::kCpu;
  bool by_name = false;
  bool json = false;
  bool colour = false;
};

absl::Status PrintThreads(const ThreadsOptions& options, std::ostream& out);

}  // namespace profctl

#endif  // PROFD_CLIENT_COMMANDS_THREADS_H_
