// churn: allocates and frees without end, at known places and steady rates.
//
//   steady   every millisecond five times 100 bytes in ChurnSmall, once 1,000 by calloc in
//   ChurnCalloc large    every ten milliseconds 60,000 bytes in ChurnLarge, by a realloc of 30,000
//   busy     computes, and allocates 300 bytes in ChurnBusy after every some ten microseconds of it
//
// Says "ready PID". For each line on stdin it says what was allocated so far, as a line of JSON:
// bytes by place, as malloc_usable_size tells them, what was freed, and when that was (ns since
// 1970). The line "fork" makes a
// child that does the same, and says "child PID"; it ends with its parent. After "exec" it begins
// again as the same program. Ends when stdin is closed. With the argument "paced" nothing is busy
// and steady allocates every five milliseconds: an emulated CPU keeps that pace even while it is
// traced.
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "tests/targets/meter.h"

namespace churning {

struct Place {
  const char* name;
  std::atomic<uint64_t> bytes;
};
Place small = {"ChurnSmall", 0};
Place zeroed = {"ChurnCalloc", 0};
Place large = {"ChurnLarge", 0};
Place busy = {"ChurnBusy", 0};
std::atomic<uint64_t> freed;

bool paced = false;
constexpr int kRounds = 20'000;  // of the busy thread's arithmetic

void Count(Place& place, void* memory) {
  if (memory == nullptr) abort();
  place.bytes.fetch_add(malloc_usable_size(memory), std::memory_order_relaxed);
}

void Free(void* memory) {
  freed.fetch_add(malloc_usable_size(memory), std::memory_order_relaxed);
  free(memory);
}

extern "C" KEEP_FRAME void* ChurnSmall() {
  void* memory = malloc(100);
  Count(small, memory);
  return memory;
}

extern "C" KEEP_FRAME void* ChurnCalloc() {
  void* memory = calloc(10, 100);
  Count(zeroed, memory);
  return memory;
}

extern "C" KEEP_FRAME void* ChurnLarge() {
  void* memory = malloc(30'000);
  Count(large, memory);
  freed.fetch_add(malloc_usable_size(memory), std::memory_order_relaxed);
  memory = realloc(memory, 60'000);
  Count(large, memory);
  return memory;
}

extern "C" KEEP_FRAME void* ChurnBusy() {
  void* memory = malloc(300);
  Count(busy, memory);
  return memory;
}

// Calls `step` once in each period, whatever it takes.
void Pace(int64_t period_ns, void (*step)()) {
  constexpr int64_t kSecond = 1'000'000'000;
  timespec next;
  clock_gettime(CLOCK_MONOTONIC, &next);
  while (true) {
    step();
    next.tv_nsec += period_ns;
    if (next.tv_nsec >= kSecond) {
      next.tv_nsec -= kSecond;
      ++next.tv_sec;
    }
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, nullptr);
  }
}

KEEP_FRAME void* Steady(void*) {
  pthread_setname_np(pthread_self(), "steady");
  Pace(paced ? 5'000'000 : 1'000'000, [] {
    for (int i = 0; i < 5; ++i) Free(ChurnSmall());
    Free(ChurnCalloc());
  });
  return nullptr;
}

KEEP_FRAME void* Large(void*) {
  pthread_setname_np(pthread_self(), "large");
  Pace(10'000'000, [] { Free(ChurnLarge()); });
  return nullptr;
}

KEEP_FRAME void* Busy(void*) {
  pthread_setname_np(pthread_self(), "busy");
  // Not without a pause: beside threads of ours that wake up all the time it would keep others from
  // its CPU for seconds (Linux 6.18).
  constexpr int kStretch = 5'000;
  while (true) {
    for (int n = 0; n < kStretch; ++n) {
      for (int i = 0; i < kRounds; ++i) asm volatile("" ::: "memory");
      Free(ChurnBusy());
    }
    usleep(2'000);
  }
  return nullptr;
}

void StartThreads() {
  for (void* (*work)(void*) : {Steady, Large, Busy}) {
    if (paced && work == Busy) continue;
    pthread_t thread;
    if (pthread_create(&thread, nullptr, work, nullptr) != 0) abort();
  }
}

void Fork() {
  const pid_t child = fork();
  if (child != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  StartThreads();
  printf("child %d\n", getpid());
  fflush(stdout);
  while (true) pause();
}

void Print() {
  printf("{");
  for (const Place* place : {&small, &zeroed, &large, &busy}) {
    printf("\"%s\":%" PRIu64 ",", place->name, place->bytes.load());
  }
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  printf("\"freed\":%" PRIu64 ",\"now_ns\":%" PRId64 "}\n", freed.load(),
         int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec);
  fflush(stdout);
}

}  // namespace churning

int main(int argc, char** argv) {
  using namespace churning;
  paced = argc > 1 && strcmp(argv[1], "paced") == 0;
  StartThreads();
  printf("ready %d\n", getpid());
  fflush(stdout);
  char line[64];
  while (fgets(line, sizeof(line), stdin) != nullptr) {
    if (strcmp(line, "fork\n") == 0) {
      Fork();
    } else if (strcmp(line, "exec\n") == 0) {
      execl("/proc/self/exe", "churn", paced ? "paced" : nullptr, nullptr);
      abort();
    } else {
      Print();
    }
  }
  _exit(0);
}
