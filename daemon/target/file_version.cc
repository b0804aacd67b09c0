#include "daemon/target/file_version.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace profd {

std::optional<FileVersion> VersionOf(int fd) {
  struct stat st;
  if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) return std::nullopt;
  return FileVersion{
      .device = st.st_dev,
      .inode = st.st_ino,
      .size = st.st_size,
      .written_ns = int64_t{st.st_mtim.tv_sec} * 1'000'000'000 + st.st_mtim.tv_nsec,
  };
}

UniqueFd ReopenFile(int root, const std::string& path, const FileVersion& version) {
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  // Looked at before it is opened: opening a device may do something.
  const UniqueFd place(
      root >= 0 ? static_cast<int>(syscall(SYS_openat2, root, path.c_str(), &how, sizeof(how)))
                : open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!place.ok() || VersionOf(place.get()) != version) return UniqueFd();
  UniqueFd fd(open(absl::StrCat("/proc/self/fd/", place.get()).c_str(), O_RDONLY | O_CLOEXEC));
  return fd;
}

}  // namespace profd
