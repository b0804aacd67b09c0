// What a system call waits for, by its first argument: a futex, a set of semaphores or a file.
#ifndef PROFD_DAEMON_SERVICE_WAIT_OBJECT_H_
#define PROFD_DAEMON_SERVICE_WAIT_OBJECT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace profd {

// "futex 0x7f12a0", "semaphores 3" or "fd 7". `argument` is one of a system call that names what it
// waits for.
std::string ObjectText(int32_t syscall, uint64_t argument);
// Whether the argument is a file descriptor.
bool IsDescriptor(int32_t syscall);

// What the descriptors of processes refer to now. For one answer: each is looked up once, and no
// more than a limit of them.
class OpenFiles {
 public:
  explicit OpenFiles(std::string proc, size_t most = 4096) : proc_(std::move(proc)), most_(most) {}

  // As /proc names it: a path, "socket:[4711]", "pipe:[4711]", "anon_inode:[eventpoll]". Empty: not
  // known. It may have been closed since the wait was seen, and another one opened.
  const std::string& Find(int32_t pid, uint64_t descriptor);

 private:
  const std::string proc_;
  const size_t most_;
  absl::flat_hash_map<std::pair<int32_t, uint64_t>, std::string> found_;
  const std::string none_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_WAIT_OBJECT_H_
