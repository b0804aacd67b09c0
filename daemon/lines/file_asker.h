// How a worker, which can open nothing, gets the companion files of debug info.
#ifndef PROFD_DAEMON_LINES_FILE_ASKER_H_
#define PROFD_DAEMON_LINES_FILE_ASKER_H_

#include <cstdint>
#include <string>

#include "daemon/base/fd.h"
#include "daemon/base/status.h"
#include "daemon/lines/protocol.h"

namespace profd {

// Asks profd over the worker's socket, in the middle of a request.
class FileAsker {
 public:
  explicit FileAsker(int socket) : socket_(socket) {}

  // The request that is answered now; it may ask for kMaxFileQuestions files.
  void Begin(uint64_t id);
  // Waits for the answer. Not ok() if there is no such file.
  UniqueFd Ask(FileQuestion::Kind kind, const std::string& name, const std::string& build_id);

  // libdw opens .dwo files by their path. Where the system call filter traps that call (SIGSYS), it
  // gets what profd gives instead. `asker` must live as long as the process.
  static absl::Status AnswerTraps(FileAsker* asker);

 private:
  const int socket_;
  uint64_t id_ = 0;
  int left_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_LINES_FILE_ASKER_H_
