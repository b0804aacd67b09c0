#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
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

// So many MiB in a second, or all at once where that is 0.
void AtRate(int64_t rate, void (*touch)(volatile char*, size_t), char* memory, size_t bytes) {
  const size_t step = rate == 0 ? bytes : kMib;
  for (size_t i = 0; i < bytes; i += step) {
    touch(memory + i, step);
    if (rate != 0) usleep(static_cast<useconds_t>(1'000'000 / rate));
  }
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
  const int64_t rate = arguments.Number(3, 0);
  char* first = Map(first_bytes, huge);
  char* second = Map(second_bytes, huge);
  AtRate(rate, TouchFirst, first, first_bytes);
  AtRate(rate, TouchSecond, second, second_bytes);
  char where[96];
  snprintf(where, sizeof(where), R"(touched {"first":%zu,"second":%zu,"returned":%zu})",
           first_bytes, second_bytes, first_bytes / 2);
  Stop(where);
  Check(madvise(first, first_bytes / 2, MADV_DONTNEED) == 0, "madvise");
  Stop("given back");
  AtRate(rate, TouchAgain, first, first_bytes / 2);
  Stop("touched again");
}

}  // namespace waiter
