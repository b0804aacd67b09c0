// A mapping of a foreign file that survives the file being cut short by its owner.
#ifndef PROFD_DAEMON_TARGET_GUARDED_FILE_H_
#define PROFD_DAEMON_TARGET_GUARDED_FILE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "daemon/base/fd.h"
#include "daemon/base/status.h"

namespace profd {

// While one of these lives, reading past the file's present end gives zeros instead of SIGBUS.
// One at a time in a process.
class GuardedFile {
 public:
  static absl::StatusOr<std::unique_ptr<GuardedFile>> Map(int fd);
  ~GuardedFile();

  std::span<const uint8_t> bytes() const { return file_.bytes(); }
  // The file was cut short while it was read: what was read is not the file.
  bool torn() const;

 private:
  explicit GuardedFile(MappedFile file) : file_(std::move(file)) {}
  MappedFile file_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_TARGET_GUARDED_FILE_H_
