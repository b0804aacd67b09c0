#include <sys/mman.h>

#include <cstring>

#include "tests/targets/meter.h"
#include "tests/targets/scenarios.h"

namespace waiter {
namespace {

// A mapping of that size, each page of it written.
KEEP_FRAME void* MapAndTouch(size_t bytes, int sharing) {
  void* memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0);
  Check(memory != MAP_FAILED, "mmap");
  memset(memory, 1, bytes);
  return memory;
}

}  // namespace

void Memory(const Arguments& arguments) {
  const auto bytes = static_cast<size_t>(arguments.Number(0, 256)) << 20;
  void* memory = MapAndTouch(bytes, MAP_PRIVATE);
  Stop("touched");
  Check(madvise(memory, bytes, MADV_DONTNEED) == 0, "madvise");
  Stop("dropped");
  MapAndTouch(bytes, MAP_SHARED);
  Stop("shared");
}

}  // namespace waiter
