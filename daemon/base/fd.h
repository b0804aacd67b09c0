// Owners for file descriptors and memory mappings.
#ifndef PROFD_DAEMON_BASE_FD_H_
#define PROFD_DAEMON_BASE_FD_H_

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "daemon/base/status.h"

namespace profd {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

// A read-only private mapping of a whole regular file.
class MappedFile {
 public:
  // Errors: what fstat/mmap give; InvalidArgument for an empty or non-regular file. The file may
  // be truncated by its owner while mapped: readers of foreign files use ReadFileAt instead where
  // that must not kill the process.
  static absl::StatusOr<MappedFile> Map(int fd);

  MappedFile(MappedFile&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~MappedFile();

  std::span<const uint8_t> bytes() const { return {static_cast<const uint8_t*>(data_), size_}; }

 private:
  MappedFile(void* data, size_t size) : data_(data), size_(size) {}
  void* data_ = nullptr;
  size_t size_ = 0;
};

absl::StatusOr<UniqueFd> OpenReadOnly(const std::string& path);

// Reads up to `limit` bytes of a file whose size is not known before (/proc). ResourceExhausted
// when it is longer. `path` names it in errors.
absl::StatusOr<std::string> ReadToEnd(int fd, const std::string& path, size_t limit);
absl::StatusOr<std::string> ReadWholeFile(const std::string& path, size_t limit = 64 << 20);

// Reads exactly `size` bytes at `offset`. OutOfRange when the file is shorter.
absl::Status ReadFileAt(int fd, uint64_t offset, void* out, size_t size);

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_FD_H_
