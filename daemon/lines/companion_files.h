// Files that debug info refers to: .dwo files of split DWARF, and what dwz moved to a file of its
// own.
#ifndef PROFD_DAEMON_LINES_COMPANION_FILES_H_
#define PROFD_DAEMON_LINES_COMPANION_FILES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "daemon/base/fd.h"
#include "daemon/elf/elf_file.h"
#include "daemon/lines/protocol.h"

namespace profd {

// Opens such files for one module. The names come from debug info, which a hostile target may have
// written, or from the process that reads it, which may have been taken over: only regular files
// are opened, in the target's root no symbolic link leads out of it, and only what is split DWARF,
// or has the right build-id, is given away.
class CompanionFiles {
 public:
  using IsWanted = absl::FunctionRef<bool(const symbolize::ElfFile& elf)>;

  // `root`: the root directory of the target; null: that of profd. `own_root`: "/" but in tests.
  // `directories`: more places, as /usr/lib/debug. `module_path`: of the module in its root.
  CompanionFiles(std::shared_ptr<const UniqueFd> root, std::string own_root,
                 std::vector<std::string> directories, std::string module_path);

  // Not ok() if there is none. Whether a .dwo file belongs to its unit is for its reader to check.
  UniqueFd Open(const FileQuestion& question) const;

 private:
  UniqueFd OpenSplit(const std::string& name) const;
  UniqueFd OpenSupplementary(const std::string& name, const std::string& build_id) const;
  // The first of these files that is wanted: each in the target's root, then in that of profd.
  UniqueFd OpenFirst(const std::vector<std::string>& paths, IsWanted is_wanted) const;

  const std::shared_ptr<const UniqueFd> root_;
  const std::string own_root_;
  const std::vector<std::string> directories_;
  std::string folder_;  // of the module, with a slash at the end
};

}  // namespace profd

#endif  // PROFD_DAEMON_LINES_COMPANION_FILES_H_
