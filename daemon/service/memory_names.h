// Names for places in the memory of processes.
#ifndef PROFD_DAEMON_SERVICE_MEMORY_NAMES_H_
#define PROFD_DAEMON_SERVICE_MEMORY_NAMES_H_

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/profile/identity.h"

namespace profd {

struct MemoryName {
  std::string text;     // valid UTF-8
  bool shared = false;  // memory that other processes may share, under the same name
};

// Reads mappings and symbols as they are now, within bounds, and keeps nothing. A place in data of
// a module is "redis-server:server+0x40", or "redis-server+0x1d2a40" (virtual address) without a
// symbol; shared memory is "NAME+0xoffset", the same in all processes; other memory is named after
// its mapping: "heap 0x55d0a4c3e2a0", "stack 0x…", "anonymous 0x…". If the process is gone, or more
// would have to be read, the name is "0x…".
class MemoryNames {
 public:
  explicit MemoryNames(std::string proc = "/proc") : proc_(std::move(proc)) {}

  // One name for each address.
  std::vector<MemoryName> Name(const ProcessId& process, std::span<const uint64_t> addresses);

 private:
  const std::string proc_;
  uint64_t maps_bytes_left_ = 64 << 20;
  int modules_left_ = 256;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_MEMORY_NAMES_H_
