#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstring>

#include "tests/targets/meter.h"
#include "tests/targets/scenarios.h"

namespace waiter {
namespace {

// A mapping of that size, each page of it written.
KEEP_FRAME void* MapAndTouch(size_t bytes, int sharing) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0);
  Check(memory != MAP_FAILED, "mmap");
  memset(memory, 1, bytes);
  return memory;
}

// Another process maps these pages, too, until this one ends.
void ShareWithChild(const void* memory, size_t bytes) {
  int ready[2];
  Check(pipe(ready) == 0, "pipe");
  const pid_t child = fork();
  Check(child >= 0, "fork");
  char byte = 0;
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (size_t at = 0; at < bytes; at += 4096) {
      byte = static_cast<const volatile char*>(memory)[at];
    }
    Check(write(ready[1], &byte, 1) == 1, "write");
    while (true) pause();
  }
  Check(read(ready[0], &byte, 1) == 1, "read");
}

}  // namespace

void Memory(const Arguments& arguments) {
  const auto bytes = static_cast<size_t>(arguments.Number(0, 256)) << 20;
  void* memory = MapAndTouch(bytes, MAP_PRIVATE);
  Stop("touched");
  Check(madvise(memory, bytes, MADV_DONTNEED) == 0, "madvise");
  Stop("dropped");
  const void* shared = MapAndTouch(bytes, MAP_SHARED);
  Stop("shared");
  ShareWithChild(shared, bytes);
  Stop("halved");
}

}  // namespace waiter
