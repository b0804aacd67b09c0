// The code of modules, read once.
#ifndef PROFD_DAEMON_SYMBOLIZE_MODULE_CODES_H_
#define PROFD_DAEMON_SYMBOLIZE_MODULE_CODES_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "daemon/symbolize/module_code.h"

namespace profd::symbolize {

// Keeps what it has read, within bounds. Not thread-safe.
class ModuleCodes {
 public:
  // Of the file behind `fd`, whose build-id is `build_id` if it is the module's. `key` identifies
  // the module. Null if it cannot be read; without an id if `*bytes_left` is not enough, which is
  // lowered by what is read: the next call may have more.
  std::shared_ptr<const ModuleCode> Of(uint64_t key, int fd, const std::string& build_id,
                                       uint64_t* bytes_left);

 private:
  absl::flat_hash_map<uint64_t, std::shared_ptr<const ModuleCode>> known_;
};

}  // namespace profd::symbolize

#endif  // PROFD_DAEMON_SYMBOLIZE_MODULE_CODES_H_
