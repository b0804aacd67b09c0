// Copied many times by `bench_load --modules`: a shared object with some hundred functions, so
// that it has about as many unwind rules as a small library.
#include <cstdint>

namespace {

volatile uint64_t g_sink;

template <int N>
__attribute__((noinline, used)) uint64_t Function(uint64_t a, uint64_t b) {
  uint64_t room[N % 7 + 1];
  for (auto& r : room) r = a += b ^ N;
  asm volatile("" : : "r"(room) : "memory", "rbx", "r12", "r13");
  g_sink = room[0];
  return a;
}

template <int N>
__attribute__((noinline, used)) uint64_t All(uint64_t a) {
  if constexpr (N == 0) {
    return a;
  } else {
    return Function<N>(a, All<N - 1>(a));
  }
}

}  // namespace

// Calls `next(argument)` with a frame of this module on the stack.
extern "C" __attribute__((noinline, visibility("default"))) uint64_t ModuleCall(void (*next)(void*),
                                                                                void* argument) {
  if (argument == nullptr) return All<150>(1);
  next(argument);
  asm volatile("" ::: "memory");
  return 0;
}
