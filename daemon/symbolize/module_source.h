// The files behind module ids, for symbolizing and for status.
#ifndef PROFD_DAEMON_SYMBOLIZE_MODULE_SOURCE_H_
#define PROFD_DAEMON_SYMBOLIZE_MODULE_SOURCE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "daemon/base/fd.h"
#include "daemon/profile/profile.h"
#include "daemon/symbolize/symbolizer.h"

namespace profd {

struct ModuleFile {
  ModuleIdentity identity;
  UniqueFd fd;  // not ok() if the file could not be opened
  // The root directory of a process that maps it; null: that of profd.
  std::shared_ptr<const UniqueFd> root;
};

struct ModuleState {
  ModuleIdentity identity;
  uint32_t rules = 0;
  std::string note;  // why there are no rules, or empty
};

// How many modules there are.
struct ModuleUse {
  uint64_t in_use = 0;   // in the kernel's table
  uint64_t limit = 0;    // of the table
  uint64_t retired = 0;  // that are mapped no more, but named by stored stacks
};

// Thread-safe.
class ModuleSource {
 public:
  virtual ~ModuleSource() = default;
  // The file behind a module id of a frame; nullopt when the id is unknown.
  virtual std::optional<ModuleFile> Find(ModuleId id) const = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SYMBOLIZE_MODULE_SOURCE_H_
