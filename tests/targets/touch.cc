#include <sys/mman.h>

#include <cstring>

#include "tests/targets/meter.h"
#include "tests/targets/scenarios.h"

namespace waiter {
namespace touch {

constexpr size_t kMib = size_t{1} << 20;
constexpr size_t kPage = 4096;

KEEP_FRAME void TouchFirst(volatile char* memory, size_t bytes) {
  for (size_t i = 0; i < bytes; i += kPage) memory[i] = 1;
}
KEEP_FRAME void TouchSecond(volatile char* memory, size_t bytes) {
  for (size_t i = 0; i < bytes; i += kPage) memory[i] = 2;
}
KEEP_FRAME void TouchAgain(volatile char* memory, size_t bytes) {
  for (size_t i = 0; i < bytes; i += kPage) memory[i] = 3;
}

char* Map(size_t bytes, bool huge) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  Check(memory != MAP_FAILED, "mmap");
  madvise(memory, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  return static_cast<char*>(memory);
}

}  // namespace touch

void Touch(const Arguments& arguments) {
  using namespace touch;
  Meter meter("toucher");
  const bool huge = strcmp(arguments.Text(2), "huge") == 0;
  const size_t first_bytes = static_cast<size_t>(arguments.Number(0, 256)) * kMib;
  const size_t second_bytes = static_cast<size_t>(arguments.Number(1, 256)) * kMib;
  char* first = Map(first_bytes, huge);
  char* second = Map(second_bytes, huge);
  TouchFirst(first, first_bytes);
  TouchSecond(second, second_bytes);
  Stop("touched");
  Check(madvise(first, first_bytes / 2, MADV_DONTNEED) == 0, "madvise");
  Stop("given back");
  TouchAgain(first, first_bytes / 2);
  Stop("touched again");
}

}  // namespace waiter
