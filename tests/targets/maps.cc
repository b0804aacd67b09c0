#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tests/targets/meter.h"
#include "tests/targets/scenarios.h"

namespace waiter {
namespace maps {

constexpr size_t kMib = size_t{1} << 20;
constexpr size_t kSmall = 1000;

void* Map(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  Check(memory != MAP_FAILED, "mmap");
  return memory;
}

KEEP_FRAME void MapFirst(std::vector<void*>& blocks) {
  for (void*& block : blocks) block = Map(kMib / 4);
}
KEEP_FRAME void MapSecond(std::vector<void*>& blocks) {
  for (void*& block : blocks) block = Map(kMib + 1);
}
KEEP_FRAME void MapByMalloc(std::vector<void*>& blocks) {
  for (void*& block : blocks) block = malloc(kMib);
}
KEEP_FRAME void MapByHeap(std::vector<void*>& blocks) {
  for (void*& block : blocks) block = malloc(kSmall);
}
KEEP_FRAME void UnmapHalf(const std::vector<void*>& blocks) {
  for (size_t i = 0; i < blocks.size(); i += 2) munmap(blocks[i], kMib / 4);
}
KEEP_FRAME void UnmapByFree(const std::vector<void*>& blocks) {
  for (size_t i = 0; i < blocks.size(); i += 2) free(blocks[i]);
}
KEEP_FRAME void HandBack(const std::vector<void*>& blocks) {
  for (size_t i = 1; i < blocks.size(); i += 2) madvise(blocks[i], kMib / 4, MADV_DONTNEED);
}

}  // namespace maps

void Maps(const Arguments& arguments) {
  using namespace maps;
  Meter meter("mapper");
  // Both fixed: left alone, glibc moves them.
  Check(mallopt(M_MMAP_THRESHOLD, kMib / 2) == 1 && mallopt(M_TRIM_THRESHOLD, kMib) == 1,
        "mallopt");
  const auto count = static_cast<size_t>(arguments.Number(0, 100));
  std::vector<void*> first(count), second(count), large(count), small(100 * count);
  while (true) {
    MapFirst(first);
    MapSecond(second);
    MapByMalloc(large);
    const auto* before = static_cast<char*>(sbrk(0));
    MapByHeap(small);
    char where[64];
    snprintf(where, sizeof(where), "mapped %td", static_cast<char*>(sbrk(0)) - before);
    Stop(where);
    UnmapHalf(first);
    UnmapByFree(large);
    HandBack(first);
    Stop("unmapped");
    for (size_t i = 0; i < count; ++i) {
      munmap(second[i], kMib + 1);
      if (i % 2 == 0) continue;
      munmap(first[i], kMib / 4);
      free(large[i]);
    }
    for (void* block : small) free(block);
  }
}

}  // namespace waiter
