#include "client/io/output.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "daemon/base/fd.h"
#include "daemon/base/status.h"

namespace profctl {
namespace {

constexpr int kMostAttempts = 1000;
constexpr size_t kLongestPart = 40;

absl::Status CannotWrite(const std::string& path, int error_number) {
  return profd::ErrnoStatus(absl::StrCat("cannot write ", path), error_number);
}

absl::Status WriteAll(int fd, std::string_view content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t written = write(fd, content.data(), content.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return CannotWrite(path, errno);
    }
    content.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

// A temporary file next to its destination, removed unless it is moved there.
class TemporaryFile {
 public:
  static absl::StatusOr<TemporaryFile> Create(const std::string& destination) {
    for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
      std::string path =
          absl::StrCat(destination, ".", getpid(), ".", profd::MonotonicNs(), ".tmp");
      profd::UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
      if (fd.ok()) return TemporaryFile(std::move(path), std::move(fd));
      if (errno != EEXIST) return CannotWrite(destination, errno);
    }
    return CannotWrite(destination, EEXIST);
  }

  TemporaryFile(TemporaryFile&& other) noexcept
      : path_(std::exchange(other.path_, {})), fd_(std::move(other.fd_)) {}
  TemporaryFile& operator=(TemporaryFile&&) = delete;
  ~TemporaryFile() {
    if (!path_.empty()) unlink(path_.c_str());
  }

  // A full disk may show only at fsync.
  absl::Status Fill(std::string_view content, const std::string& destination) {
    RETURN_IF_ERROR(WriteAll(fd_.get(), content, destination));
    if (fsync(fd_.get()) != 0 && errno != EINVAL) return CannotWrite(destination, errno);
    if (close(fd_.release()) != 0) return CannotWrite(destination, errno);
    return absl::OkStatus();
  }
  absl::Status MoveTo(const std::string& destination) {
    if (rename(path_.c_str(), destination.c_str()) != 0) return CannotWrite(destination, errno);
    path_.clear();
    return absl::OkStatus();
  }
  // AlreadyExists if the destination exists.
  absl::Status MoveToNew(const std::string& destination) {
    if (renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, destination.c_str(), RENAME_NOREPLACE) == 0) {
      path_.clear();
      return absl::OkStatus();
    }
    // Some file systems lack the flag. A hard link does not replace files either.
    if (errno == EINVAL && link(path_.c_str(), destination.c_str()) == 0) return absl::OkStatus();
    return CannotWrite(destination, errno);
  }

 private:
  TemporaryFile(std::string path, profd::UniqueFd fd)
      : path_(std::move(path)), fd_(std::move(fd)) {}
  std::string path_;
  profd::UniqueFd fd_;
};

// The file that a path names, through symbolic links.
std::string Resolve(const std::string& path) {
  const std::unique_ptr<char, decltype(&free)> real(realpath(path.c_str(), nullptr), &free);
  return real ? std::string(real.get()) : path;
}

}  // namespace

absl::Status Print(std::string_view text, std::ostream& out) {
  out.write(text.data(), static_cast<std::streamsize>(text.size())).flush();
  if (!out.good()) return absl::DataLossError("cannot write to stdout; the answer is cut off");
  return absl::OkStatus();
}

absl::Status WriteFile(const std::string& path, std::string_view content) {
  struct stat existing{};
  if (stat(path.c_str(), &existing) == 0 && !S_ISREG(existing.st_mode)) {
    profd::UniqueFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!fd.ok()) return CannotWrite(path, errno);
    return WriteAll(fd.get(), content, path);
  }
  const std::string destination = Resolve(path);
  ASSIGN_OR_RETURN(TemporaryFile file, TemporaryFile::Create(destination));
  RETURN_IF_ERROR(file.Fill(content, path));
  return file.MoveTo(destination);
}

absl::StatusOr<std::string> WriteNewFile(const std::string& stem, const std::string& suffix,
                                         std::string_view content) {
  ASSIGN_OR_RETURN(TemporaryFile file, TemporaryFile::Create(stem + suffix));
  RETURN_IF_ERROR(file.Fill(content, stem + suffix));
  absl::Status status;
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    std::string path = attempt == 0 ? stem + suffix : absl::StrCat(stem, "-", attempt, suffix);
    status = file.MoveToNew(path);
    if (status.ok()) return path;
    if (!absl::IsAlreadyExists(status)) return status;
  }
  return status;
}

std::string FileNamePart(std::string_view text) {
  std::string part;
  for (const char c : text) {
    if (part.size() == kLongestPart) break;
    const bool plain = absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' ||
                       (!part.empty() && (c == '.' || c == '-'));
    part += plain ? c : '_';
  }
  return part.empty() ? "process" : part;
}

}  // namespace profctl
