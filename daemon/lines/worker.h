// The process that reads debug info.
#ifndef PROFD_DAEMON_LINES_WORKER_H_
#define PROFD_DAEMON_LINES_WORKER_H_

#include "daemon/lines/sandbox.h"

namespace profd {

// Enters the sandbox, then answers the requests on `socket` until it is closed. A request that
// takes longer than `limits.cpu_seconds` of CPU time ends the process.
void ServeLines(int socket, const WorkerLimits& limits);

}  // namespace profd

#endif  // PROFD_DAEMON_LINES_WORKER_H_
