// Code that is made at run time, with a perf map that names it.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

#include "tests/targets/meter.h"
#include "tests/targets/scenarios.h"

namespace waiter {
namespace jit {

// void Call(void (*function)(void*), void* argument), with a frame pointer, as JIT compilers make:
// push %rbp; mov %rsp,%rbp; mov %rdi,%rax; mov %rsi,%rdi; call *%rax; pop %rbp; ret
constexpr uint8_t kCall[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0xf8,
                             0x48, 0x89, 0xf7, 0xff, 0xd0, 0x5d, 0xc3};
// The same in each process, so that only the process tells their code apart.
constexpr uintptr_t kPlace = 0x100000000000;
constexpr size_t kBytes = 4096;

using Call = void (*)(void (*function)(void*), void* argument);

// Puts the code into memory, and its name into the map.
Call Make(const char* map, const char* name) {
  void* memory = mmap(reinterpret_cast<void*>(kPlace), kBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  Check(memory == reinterpret_cast<void*>(kPlace), "mmap");
  memcpy(memory, kCall, sizeof(kCall));
  Check(mprotect(memory, kBytes, PROT_READ | PROT_EXEC) == 0, "mprotect");
  FILE* file = fopen(map, "w");
  Check(file != nullptr, map);
  fprintf(file, "%llx %zx %s\n", static_cast<unsigned long long>(kPlace), sizeof(kCall), name);
  Check(fclose(file) == 0, map);
  return reinterpret_cast<Call>(memory);
}

KEEP_FRAME void Nap(void* meter) { MeteredSleep(static_cast<Meter*>(meter), 20'000); }

struct Plan {
  Call call;
  int64_t count;
};

KEEP_FRAME void* Thread(void* argument) {
  const Plan& plan = *static_cast<Plan*>(argument);
  Meter meter("jit");
  for (int64_t i = 0; i < plan.count; ++i) plan.call(Nap, &meter);
  return nullptr;
}

}  // namespace jit

void Jit(const Arguments& arguments) {
  char map[64];
  snprintf(map, sizeof(map), "/tmp/perf-%d.map", getpid());
  jit::Plan plan{jit::Make(map, arguments.Text(0)), arguments.Number(1, 100)};
  Join(Start(jit::Thread, &plan));
  PrintReport();
  while (AwaitLine()) {
  }
  unlink(map);
  _exit(0);
}

}  // namespace waiter
