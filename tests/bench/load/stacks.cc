#include <vector>

#include "tests/bench/load/load.h"

namespace load {
namespace {

// Each stack is a path of this length through a binary tree: all are equally deep, and there is
// room for 131,072 of them.
constexpr int kDepth = 17;

struct Walker {
  int64_t first = 0;
  int64_t stacks = 0;
  int64_t wait_ns = 0;
  std::atomic<int64_t> waits{0};
};
std::vector<Walker*> g_walkers;

KEEP_FRAME void Left(int64_t path, int depth, int64_t wait_ns);
KEEP_FRAME void Right(int64_t path, int depth, int64_t wait_ns);

KEEP_FRAME void Leaf(int64_t wait_ns) {
  Sleep(wait_ns);
  asm volatile("" ::: "memory");
}

inline __attribute__((always_inline)) void Descend(int64_t path, int depth, int64_t wait_ns) {
  if (depth == kDepth) {
    Leaf(wait_ns);
  } else if ((path >> depth & 1) == 0) {
    Left(path, depth + 1, wait_ns);
  } else {
    Right(path, depth + 1, wait_ns);
  }
  asm volatile("" ::: "memory");  // a sibling call would leave no frame
}

KEEP_FRAME void Left(int64_t path, int depth, int64_t wait_ns) { Descend(path, depth, wait_ns); }
KEEP_FRAME void Right(int64_t path, int depth, int64_t wait_ns) { Descend(path, depth, wait_ns); }

KEEP_FRAME void* Walk(void* argument) {
  auto* walker = static_cast<Walker*>(argument);
  for (int64_t i = walker->first; !g_stop; i = (i + 1) % walker->stacks) {
    Descend(i, 0, walker->wait_ns);
    walker->waits.fetch_add(1, std::memory_order_relaxed);
  }
  return nullptr;
}

}  // namespace

void StartStacks(int64_t stacks, int threads, int64_t wait_ns) {
  static_assert((1 << kDepth) >= 100'000);
  for (int i = 0; i < threads; ++i) {
    auto* walker = new Walker;  // lives as long as the process
    walker->first = stacks * i / threads;
    walker->stacks = stacks;
    walker->wait_ns = wait_ns;
    g_walkers.push_back(walker);
    Start("stacks", Walk, walker);
  }
}

int64_t StackWaits() {
  int64_t sum = 0;
  for (const Walker* walker : g_walkers) sum += walker->waits.load(std::memory_order_relaxed);
  return sum;
}

}  // namespace load
