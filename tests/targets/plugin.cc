// Loaded and unloaded by `waiter plugin`.
#include <cstdint>
#include <ctime>

#define KEEP_FRAME __attribute__((noinline, visibility("default")))

extern "C" {

KEEP_FRAME void PluginSleep(int64_t us) {
  timespec ts{us / 1'000'000, us % 1'000'000 * 1000};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, nullptr);
  __asm__ volatile("" ::: "memory");
}

KEEP_FRAME void PluginNap(int64_t us) {
  PluginSleep(us);
  __asm__ volatile("" ::: "memory");
}
}
