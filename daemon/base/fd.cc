#include "daemon/base/fd.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace profd {

absl::StatusOr<MappedFile> MappedFile::Map(int fd) {
  struct stat st;
  if (fstat(fd, &st) != 0) return ErrnoStatus("fstat", errno);
  if (!S_ISREG(st.st_mode) || st.st_size <= 0) {
    return absl::InvalidArgumentError("not a regular file with content");
  }
  const size_t size = static_cast<size_t>(st.st_size);
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) return ErrnoStatus("mmap", errno);
  return MappedFile(data, size);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(data_, size_);
}

absl::StatusOr<UniqueFd> OpenReadOnly(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.ok()) return ErrnoStatus(absl::StrCat("open ", path), errno);
  return fd;
}

absl::StatusOr<std::string> ReadToEnd(int fd, const std::string& path, size_t limit) {
  std::string out;
  char buffer[16384];
  while (true) {
    const ssize_t n = read(fd, buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(absl::StrCat("read ", path), errno);
    if (n == 0) return out;
    if (out.size() + static_cast<size_t>(n) > limit) {
      return absl::ResourceExhaustedError(absl::StrCat(path, " is longer than ", limit, " bytes"));
    }
    out.append(buffer, static_cast<size_t>(n));
  }
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path, size_t limit) {
  ASSIGN_OR_RETURN(const UniqueFd fd, OpenReadOnly(path));
  return ReadToEnd(fd.get(), path, limit);
}

absl::Status ReadFileAt(int fd, uint64_t offset, void* out, size_t size) {
  auto* cursor = static_cast<char*>(out);
  while (size > 0) {
    const ssize_t n = pread(fd, cursor, size, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus("pread", errno);
    if (n == 0) return absl::OutOfRangeError("file is shorter than its headers say");
    cursor += n;
    offset += static_cast<uint64_t>(n);
    size -= static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

}  // namespace profd
