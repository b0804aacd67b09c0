#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

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

// Stops and says what the kernel has for this process, in bytes.
void StopAs(const char* where) {
  std::string text = where;
  char separator = '{';
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    for (const char* key : {"VmRSS", "RssAnon", "RssFile", "RssShmem", "VmSwap", "VmPTE"}) {
      long kib = 0;
      if (line.compare(0, strlen(key), key) != 0 ||
          sscanf(line.c_str() + strlen(key), ": %ld", &kib) != 1) {
        continue;
      }
      text += separator == '{' ? " " : "";
      text += separator + ('"' + std::string(key)) + "\":" + std::to_string(kib * 1024);
      separator = ',';
    }
  }
  Stop((text + "}").c_str());
}

void Memory(const Arguments& arguments) {
  const auto bytes = static_cast<size_t>(arguments.Number(0, 256)) << 20;
  void* memory = MapAndTouch(bytes, MAP_PRIVATE);
  StopAs("touched");
  Check(madvise(memory, bytes, MADV_DONTNEED) == 0, "madvise");
  StopAs("dropped");
  const void* shared = MapAndTouch(bytes, MAP_SHARED);
  StopAs("shared");
  ShareWithChild(shared, bytes);
  StopAs("halved");
}

}  // namespace waiter
