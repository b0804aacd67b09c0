// What /proc says about processes. Every field is hostile or gone by the time it is read.
#ifndef PROFD_DAEMON_TARGET_PROCFS_H_
#define PROFD_DAEMON_TARGET_PROCFS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/base/fd.h"
#include "daemon/base/status.h"

namespace profd {

struct ProcessInfo {
  int32_t pid = 0;
  int32_t parent = 0;
  uint64_t start_ticks = 0;  // clock ticks after boot; with the PID it identifies the process
  uint64_t cpu_ticks = 0;    // clock ticks on CPU so far, of all its threads
  std::string comm;
  std::string executable;  // base name of the program file; empty when it cannot be read
};

// NotFound when the process is gone.
absl::StatusOr<ProcessInfo> ReadProcess(int32_t pid);

// Clock ticks on CPU so far, of all its threads; 0 when it is gone.
uint64_t CpuTicks(int32_t pid);

// All processes of our PID namespace, in no order.
std::vector<ProcessInfo> ListProcesses();

// A process and its descendants, parents first. Processes that end meanwhile, and their children,
// are missing. Unimplemented where the kernel does not list children (CONFIG_PROC_CHILDREN).
absl::StatusOr<std::vector<ProcessInfo>> ReadFamily(int32_t pid);

// False when it is gone, also if another process has its PID by now.
bool IsRunning(const ProcessInfo& process);

// NotFound when the process is gone.
absl::StatusOr<UniqueFd> OpenPidfd(int32_t pid);

struct MappedModule {
  UniqueFd fd;
  std::string path;  // as the target sees it, without " (deleted)"
};

// The file behind an executable mapping of a process, also when it was deleted or lies in another
// mount namespace. NotFound when the process or the mapping is gone.
absl::StatusOr<MappedModule> OpenMapping(int32_t pid, uint64_t start, uint64_t end);

// The address at which a process has the byte at `offset` of the file behind `fd` as code. NotFound
// when it has not, or the process is gone.
absl::StatusOr<uint64_t> FindCode(int32_t pid, int fd, uint64_t offset);

// Reads exactly `size` bytes of a process's memory. PermissionDenied without CAP_SYS_PTRACE;
// NotFound when the process is gone or has no memory there.
absl::Status ReadMemory(int32_t pid, uint64_t address, void* out, size_t size);

}  // namespace profd

#endif  // PROFD_DAEMON_TARGET_PROCFS_H_
