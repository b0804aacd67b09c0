// Threads that stay in known waits, to be looked at.
#include <fcntl.h>
#include <semaphore.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <vector>

#include "tests/targets/meter.h"
#include "tests/targets/scenarios.h"

namespace waiter {
namespace now {

constexpr int kWaiters = 3, kSleepers = 4;

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
sem_t held;
int pipe_ends[2];

// One of the threads: when it was about to wait, and when it was seen in its system call.
struct Thread {
  char name[16];
  std::atomic<int> tid = 0;
  std::atomic<int64_t> before = 0;
  int64_t asleep = 0;
};
Thread holder, waiters[kWaiters], reader, sleepers[kSleepers], runner;

int64_t WallNow() {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return t.tv_sec * 1'000'000'000ll + t.tv_nsec;
}

void Enter(Thread* thread) {
  pthread_setname_np(pthread_self(), thread->name);
  thread->before = WallNow();
  thread->tid = static_cast<int>(syscall(SYS_gettid));
}

KEEP_FRAME void SleepForGood() {
  while (true) sleep(1000);
}

KEEP_FRAME void* Hold(void* argument) {
  pthread_mutex_lock(&mutex);
  sem_post(&held);
  Enter(static_cast<Thread*>(argument));
  SleepForGood();
  return nullptr;
}

KEEP_FRAME void TakeForGood() { pthread_mutex_lock(&mutex); }

KEEP_FRAME void* Wait(void* argument) {
  Enter(static_cast<Thread*>(argument));
  TakeForGood();
  return nullptr;
}

KEEP_FRAME void* Read(void* argument) {
  char c;
  Enter(static_cast<Thread*>(argument));
  Check(read(pipe_ends[0], &c, 1) == 1, "read");
  return nullptr;
}

KEEP_FRAME void* Sleep(void* argument) {
  Enter(static_cast<Thread*>(argument));
  SleepForGood();
  return nullptr;
}

KEEP_FRAME void* Run(void* argument) {
  Enter(static_cast<Thread*>(argument));
  while (true) asm volatile("" ::: "memory");
  return nullptr;
}

// Waits until the kernel says that the thread is in this system call, asleep.
void AwaitCall(Thread* thread, long call) {
  while (thread->tid == 0) usleep(1000);
  char path[64], line[256] = "";
  snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", thread->tid.load());
  while (strtol(line, nullptr, 10) != call || strncmp(line, "running", 7) == 0 || line[0] == '\0') {
    usleep(1000);
    FILE* file = fopen(path, "re");
    Check(file != nullptr, path);
    if (fgets(line, sizeof(line), file) == nullptr) line[0] = '\0';
    fclose(file);
  }
  thread->asleep = WallNow();
}

void Begin(Thread* thread, void* (*body)(void*), const char* name, long call) {
  snprintf(thread->name, sizeof(thread->name), "%s", name);
  Start(body, thread);
  if (call >= 0) AwaitCall(thread, call);
}

}  // namespace now

void LookAtMe(const Arguments&) {
  using namespace now;  // NOLINT: short
  Check(pipe2(pipe_ends, O_CLOEXEC) == 0, "pipe2");
  struct stat pipe_file;
  Check(fstat(pipe_ends[0], &pipe_file) == 0, "fstat");
  sem_init(&held, 0, 0);
  Begin(&holder, Hold, "holder", SYS_clock_nanosleep);
  sem_wait(&held);
  for (int i = 0; i < kWaiters; ++i) {
    char name[16];
    snprintf(name, sizeof(name), "waiter-%d", i + 1);
    Begin(&waiters[i], Wait, name, SYS_futex);
    usleep(200'000);
  }
  Begin(&reader, Read, "reader", SYS_read);
  for (Thread& sleeper : sleepers) Begin(&sleeper, Sleep, "sleeper", SYS_clock_nanosleep);
  Begin(&runner, Run, "runner", -1);
  std::vector<const Thread*> waits = {&holder, &reader};
  for (const Thread& thread : waiters) waits.push_back(&thread);
  for (const Thread& thread : sleepers) waits.push_back(&thread);
  printf("now {\"lock\": \"futex 0x%" PRIxPTR
         "\", \"fd\": \"fd %d\", \"pipe\": \"pipe:[%llu]\", \"waits\": [",
         reinterpret_cast<uintptr_t>(&mutex), pipe_ends[0],
         static_cast<unsigned long long>(pipe_file.st_ino));
  for (const Thread* thread : waits) {
    printf("%s{\"name\": \"%s\", \"tid\": %d, \"before\": %" PRId64 ", \"asleep\": %" PRId64 "}",
           thread == waits.front() ? "" : ", ", thread->name, thread->tid.load(),
           thread->before.load(), thread->asleep);
  }
  printf("]}\n");
  fflush(stdout);
  if (!AwaitLine()) _exit(0);
}

}  // namespace waiter
