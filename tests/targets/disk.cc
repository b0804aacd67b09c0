#include <fcntl.h>
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
  Stop("done");
  close(direct);
  close(fd);
}

}  // namespace waiter
