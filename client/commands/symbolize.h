// profctl symbolize: names the functions of an answer that was saved.
#ifndef PROFD_CLIENT_COMMANDS_SYMBOLIZE_H_
#define PROFD_CLIENT_COMMANDS_SYMBOLIZE_H_

#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "client/commands/fetch.h"

namespace profctl {

struct SymbolizeOptions {
  std::string file;  // that `fetch --format json` wrote
  // How it is written. Nothing is requested; `fetch.debug` is set.
  FetchOptions fetch;
};

// The error is one line.
absl::Status Symbolize(const SymbolizeOptions& options, std::ostream& out, std::ostream& err);

}  // namespace profctl

#endif  // PROFD_CLIENT_COMMANDS_SYMBOLIZE_H_
