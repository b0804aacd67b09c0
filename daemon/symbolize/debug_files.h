// The debug files of modules: found once, sought again where there is none.
#ifndef PROFD_DAEMON_SYMBOLIZE_DEBUG_FILES_H_
#define PROFD_DAEMON_SYMBOLIZE_DEBUG_FILES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/clock.h"
#include "daemon/symbolize/debug_file.h"
#include "daemon/symbolize/module_source.h"

namespace profd {

// What a module has to lack for its debug file to be sought.
enum class DebugNeed : uint8_t { kSymbols, kDebugInfo };

// Keeps the files that it found open, within bounds. Not thread-safe.
class DebugFiles {
 public:
  // `directories`: more places, see DebugPlaces. `clock` must outlive this.
  explicit DebugFiles(std::vector<std::string> directories, const Clock* clock = SystemClock(),
                      std::string own_root = "/", DebugNeed need = DebugNeed::kSymbols);

  // Looks for the debug file of a module without what is needed, if it is not known and was not
  // sought shortly before. Returns 0 if there is none, else a number that is different whenever
  // another one was found: names from before are void then. `key` identifies the module.
  uint64_t Refresh(uint64_t key, const ModuleFile& module);
  // The file that Refresh found; none where there is none.
  std::optional<symbolize::DebugFile> Open(uint64_t key) const;

 private:
  struct State {
    UniqueFd fd;  // of the debug file
    uint64_t version = 0;
    bool needs_none = false;  // the module has what is needed itself
    int64_t next_ns = 0;      // when to look again
    int64_t delay_ns = 0;
    uint64_t used = 0;
  };

  void Seek(const ModuleFile& module, State& state);
  // Makes room for one more.
  void DropOldest();

  const std::vector<std::string> directories_;
  const Clock* const clock_;
  const std::string own_root_;
  const DebugNeed need_;
  absl::flat_hash_map<uint64_t, State> states_;
  uint64_t uses_ = 0;
  uint64_t found_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SYMBOLIZE_DEBUG_FILES_H_
