#include "daemon/target/root_directories.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "absl/strings/str_cat.h"

namespace profd {

std::shared_ptr<const UniqueFd> RootDirectories::Of(int32_t pid) {
  const std::string path = absl::StrCat("/proc/", pid, "/root");
  UniqueFd fd(open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  struct stat root;
  struct stat own;
  if (!fd.ok() || fstat(fd.get(), &root) != 0 || stat("/", &own) != 0) return nullptr;
  if (root.st_dev == own.st_dev && root.st_ino == own.st_ino) return nullptr;
  absl::erase_if(open_, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<const UniqueFd>& known = open_[{root.st_dev, root.st_ino}];
  if (std::shared_ptr<const UniqueFd> held = known.lock()) return held;
  auto opened = std::make_shared<const UniqueFd>(std::move(fd));
  known = opened;
  return opened;
}

}  // namespace profd
