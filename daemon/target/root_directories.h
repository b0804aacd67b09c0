// The root directories of targets, to look for files where a target sees them.
#ifndef PROFD_DAEMON_TARGET_ROOT_DIRECTORIES_H_
#define PROFD_DAEMON_TARGET_ROOT_DIRECTORIES_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/fd.h"

namespace profd {

// Processes of one container share one open directory. Not thread-safe.
class RootDirectories {
 public:
  // The root directory of a process; null if it is that of profd, or cannot be opened. It stays
  // usable after the process ended.
  std::shared_ptr<const UniqueFd> Of(int32_t pid);

 private:
  absl::flat_hash_map<std::pair<dev_t, ino_t>, std::weak_ptr<const UniqueFd>> open_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_TARGET_ROOT_DIRECTORIES_H_
