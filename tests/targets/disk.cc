#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "tests/targets/meter.h"
#include "tests/targets/scenarios.h"

namespace waiter {
namespace disk {

constexpr size_t kSmall = 4096;
constexpr size_t kLarge = 16 * kSmall;

struct Free {
  void operator()(char* memory) const { free(memory); }
};
using Buffer = std::unique_ptr<char, Free>;

// At an address that direct I/O takes.
Buffer Allocate() {
  Buffer buffer(static_cast<char*>(aligned_alloc(kSmall, kLarge)));
  Check(buffer != nullptr, "aligned_alloc");
  for (size_t i = 0; i < kLarge; ++i) buffer.get()[i] = static_cast<char>(i);
  return buffer;
}

off_t Block(int64_t index) { return static_cast<off_t>(index) * static_cast<off_t>(kLarge); }

// One after the other.
KEEP_FRAME void ReadSmall(int fd, char* buffer, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    Check(pread(fd, buffer, kSmall, Block(i)) == static_cast<ssize_t>(kSmall), "pread");
  }
}

// To and fro.
KEEP_FRAME void ReadLarge(int fd, char* buffer, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = i % 2 == 0 ? i : count - i;
    Check(pread(fd, buffer, kLarge, Block(at)) == static_cast<ssize_t>(kLarge), "pread");
  }
}

KEEP_FRAME void WriteLarge(int fd, const char* buffer, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    Check(pwrite(fd, buffer, kLarge, Block(i)) == static_cast<ssize_t>(kLarge), "pwrite");
  }
}

// How often the blocks of a file are not where the last one ended.
int64_t CountBreaks(int fd) {
  constexpr uint32_t kMost = 512;
  const std::unique_ptr<fiemap, decltype(&free)> map(
      static_cast<fiemap*>(calloc(1, sizeof(fiemap) + kMost * sizeof(fiemap_extent))), &free);
  Check(map != nullptr, "calloc");
  map->fm_length = FIEMAP_MAX_OFFSET;
  map->fm_extent_count = kMost;
  Check(ioctl(fd, FS_IOC_FIEMAP, map.get()) == 0, "FS_IOC_FIEMAP");
  int64_t breaks = 0;
  for (uint32_t i = 1; i < map->fm_mapped_extents; ++i) {
    const fiemap_extent& last = map->fm_extents[i - 1];
    if (map->fm_extents[i].fe_physical != last.fe_physical + last.fe_length) ++breaks;
  }
  return breaks;
}

}  // namespace disk

void Disk(const Arguments& arguments) {
  using namespace disk;
  Meter meter("reader");
  const int64_t count = arguments.Number(0, 200);
  const char* directory = arguments.Text(1);
  std::string path = std::string(*directory ? directory : ".") + "/waiter-XXXXXX";
  const int fd = mkstemp(path.data());
  Check(fd >= 0, "mkstemp");
  const Buffer buffer = Allocate();
  // Through the page cache, so that the blocks are there before direct I/O.
  WriteLarge(fd, buffer.get(), count);
  Check(fsync(fd) == 0, "fsync");
  const int direct = open(path.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC);
  Check(direct >= 0, "open with O_DIRECT");
  Check(unlink(path.c_str()) == 0, "unlink");
  Stop("written");
  ReadSmall(direct, buffer.get(), count);
  ReadLarge(direct, buffer.get(), count);
  WriteLarge(direct, buffer.get(), count);
  char where[100];
  snprintf(where, sizeof(where), "done {\"count\": %lld, \"breaks\": %lld}",
           static_cast<long long>(count), static_cast<long long>(CountBreaks(fd)));
  Stop(where);
  close(direct);
  close(fd);
}

}  // namespace waiter
