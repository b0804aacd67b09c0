// Debug files from debuginfod servers, over HTTP.
#ifndef PROFD_CLIENT_SYMBOLIZE_DEBUGINFOD_H_
#define PROFD_CLIENT_SYMBOLIZE_DEBUGINFOD_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/base/fd.h"

struct debuginfod_client;

namespace profctl {

// libdebuginfod keeps what it downloads in ~/.cache/debuginfod_client, and asks for what is missing
// there again after ten minutes. It is loaded by the first Open: the libraries that it needs take
// as long to load as all others together, and few calls of profctl ask a server.
class Debuginfod {
 public:
  // Sets variables of the environment, which libdebuginfod reads: to be called before any thread is
  // started. A file has 4 GiB and takes 90 s at most, unless DEBUGINFOD_MAXSIZE or
  // DEBUGINFOD_MAXTIME say otherwise. Unavailable if libdebuginfod cannot be loaded or started.
  static absl::StatusOr<Debuginfod> Open(const std::vector<std::string>& urls);

  // The debug file of a build-id (hex), as a server sends it: check it. Stops asking after five
  // minutes in all.
  absl::StatusOr<profd::UniqueFd> Find(const std::string& build_id);

 private:
  using End = void (*)(debuginfod_client*);
  using FindFile = int (*)(debuginfod_client*, const unsigned char* build_id, int length,
                           char** path);

  Debuginfod(debuginfod_client* client, End end, FindFile find)
      : client_(client, end), find_(find) {}

  std::unique_ptr<debuginfod_client, End> client_;
  FindFile find_;
  int64_t spent_ns_ = 0;
};

}  // namespace profctl

#endif  // PROFD_CLIENT_SYMBOLIZE_DEBUGINFOD_H_
