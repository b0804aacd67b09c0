// told N SIZE EVERY: a program that samples its own objects and tells of them by USDT probes. Says
// "ready PID", then does what lines on stdin say, each with an account in a line of JSON:
//   a  allocates N objects of SIZE bytes and, in a thread of its own, N / 4 of 20 times that
//   f  of the last `a` whose objects were not freed: frees half of the small and all large ones
//   s  how many probes stand
// One object in EVERY is sampled, and stands for as many. With TOLD_SEMAPHORE none is while nobody
// watches.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "tests/targets/meter.h"

// Where the linker put the file, for tools that move it later.
asm(R"(
  .pushsection .stapsdt.base, "a", @progbits
_.stapsdt.base:
  .space 1
  .popsection
)");

#ifdef TOLD_SEMAPHORE
// Counts up while a probe stands; the kernel does that.
extern "C" {
[[gnu::section(".probes"), gnu::visibility("hidden")]] volatile uint16_t alloc_semaphore = 0;
[[gnu::section(".probes"), gnu::visibility("hidden")]] volatile uint16_t free_semaphore = 0;
}
#define ALLOC_SEMAPHORE "alloc_semaphore"
#define FREE_SEMAPHORE "free_semaphore"
#else
#define ALLOC_SEMAPHORE "0"
#define FREE_SEMAPHORE "0"
#endif

// A no-op, and a note of where it is and where its arguments are.
#define TELL(name, semaphore, arguments, ...)                  \
  asm volatile(                                                \
      "1:  nop\n"                                              \
      "    .pushsection .note.stapsdt, \"\", @note\n"          \
      "    .balign 4\n"                                        \
      "    .long 3f - 2f, 5f - 4f, 3\n"                        \
      "2:  .asciz \"stapsdt\"\n"                               \
      "3:  .balign 4\n"                                        \
      "4:  .quad 1b, _.stapsdt.base, " semaphore               \
      "\n"                                                     \
      "    .asciz \"otel_memory\", \"" name "\", \"" arguments \
      "\"\n"                                                   \
      "5:  .balign 4\n"                                        \
      "    .popsection"                                        \
      :                                                        \
      : __VA_ARGS__)

struct Object {
  size_t size;
  bool sampled;
};

struct Batch {
  std::vector<Object*> small, large;
};

namespace {

size_t every = 1;

bool IsWatched() {
#ifdef TOLD_SEMAPHORE
  return alloc_semaphore != 0;
#else
  return true;
#endif
}

// Inlined, so that each of those that allocate has a probe of its own.
[[gnu::always_inline]] inline Object* Allocate(size_t size, size_t number, uint64_t& told) {
  auto* object = static_cast<Object*>(malloc(size));
  if (object == nullptr) abort();
  *object = {size, number % every == 0 && IsWatched()};
  if (object->sampled) {
    const uint64_t weight = size * every;
    TELL("alloc", ALLOC_SEMAPHORE, "8@%0 8@%1 8@%2", "nor"(object), "nor"(size), "nor"(weight));
    told += weight;
  }
  return object;
}

[[gnu::always_inline]] inline void Release(Object* object, uint64_t& told) {
  if (object->sampled) {
    TELL("free", FREE_SEMAPHORE, "8@%0", "nor"(object));
    told += object->size * every;
  }
  free(object);
}

}  // namespace

extern "C" {

KEEP_FRAME void SiteSmall(Batch& batch, size_t count, size_t size, uint64_t& told) {
  for (size_t i = 0; i < count; ++i) batch.small.push_back(Allocate(size, i, told));
}

KEEP_FRAME void SiteLarge(Batch& batch, size_t count, size_t size, uint64_t& told) {
  for (size_t i = 0; i < count; ++i) batch.large.push_back(Allocate(size, i, told));
}

KEEP_FRAME void FreeSmall(Batch& batch, uint64_t& told) {
  // Sampled are those whose number EVERY divides; of these every second one goes.
  for (size_t i = 0; i < batch.small.size(); ++i) {
    if (i / every % 2 == 0) Release(batch.small[i], told);
  }
}

KEEP_FRAME void FreeLarge(Batch& batch, uint64_t& told) {
  for (Object* object : batch.large) Release(object, told);
}

}  // extern "C"

namespace {

void Report(const char* small, uint64_t small_told, const char* large, uint64_t large_told) {
  printf("{\"%s\": %llu, \"%s\": %llu}\n", small, static_cast<unsigned long long>(small_told),
         large, static_cast<unsigned long long>(large_told));
  fflush(stdout);
}

int Semaphore() {
#ifdef TOLD_SEMAPHORE
  return alloc_semaphore + free_semaphore;
#else
  return 0;
#endif
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const size_t count = strtoull(argv[1], nullptr, 10);
  const size_t size = strtoull(argv[2], nullptr, 10);
  every = strtoull(argv[3], nullptr, 10);
  if (size < sizeof(Object) || every == 0) return 2;
  std::vector<Batch> batches;
  printf("ready %d\n", getpid());
  fflush(stdout);
  char line[16];
  while (fgets(line, sizeof(line), stdin) != nullptr) {
    uint64_t small = 0, large = 0;
    if (line[0] == 'a') {
      Batch& batch = batches.emplace_back();
      SiteSmall(batch, count, size, small);
      std::thread([&] { SiteLarge(batch, count / 4, 20 * size, large); }).join();
      Report("SiteSmall", small, "SiteLarge", large);
    } else if (line[0] == 'f' && !batches.empty()) {
      FreeSmall(batches.back(), small);
      FreeLarge(batches.back(), large);
      batches.pop_back();
      Report("FreeSmall", small, "FreeLarge", large);
    } else if (line[0] == 's') {
      printf("{\"semaphore\": %d}\n", Semaphore());
      fflush(stdout);
    }
  }
  return 0;
}
