// Which contents of a file: what changes when the file at a path is replaced or written.
#ifndef PROFD_DAEMON_TARGET_FILE_VERSION_H_
#define PROFD_DAEMON_TARGET_FILE_VERSION_H_

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/base/fd.h"

namespace profd {

struct FileVersion {
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t size = 0;        // bytes
  int64_t written_ns = 0;  // wall clock
  friend bool operator==(const FileVersion&, const FileVersion&) = default;
};

// nullopt if it is not known.
std::optional<FileVersion> VersionOf(int fd);

// Opens a file again by its path, from the directory behind `root` (-1: the root of profd). Not
// ok() unless it is a regular file of that very version.
UniqueFd ReopenFile(int root, const std::string& path, const FileVersion& version);

}  // namespace profd

#endif  // PROFD_DAEMON_TARGET_FILE_VERSION_H_
