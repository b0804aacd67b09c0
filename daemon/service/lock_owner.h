// Who holds a lock now.
#ifndef PROFD_DAEMON_SERVICE_LOCK_OWNER_H_
#define PROFD_DAEMON_SERVICE_LOCK_OWNER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/base/status.h"
#include "daemon/profile/identity.h"

namespace profd {

struct LockOwner {
  int32_t tid = 0;   // in our PID namespace
  std::string name;  // valid UTF-8
};

// The TID that glibc or the kernel keeps in a pthread_mutex_t, as the process names its threads.
// `bytes`: the first 16 of it. None: nobody waits for it now, or nobody holds it.
std::optional<int32_t> OwnerInMutex(const unsigned char (&bytes)[16]);

// The owner of the mutex at `address` of a process, if a thread waits for it now. Reads the
// process's memory. Errors: NotFound if the process is gone or has no memory there,
// PermissionDenied without CAP_SYS_PTRACE.
absl::StatusOr<std::optional<LockOwner>> OwnerOfMutex(const ProcessId& process, uint64_t address);

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_LOCK_OWNER_H_
