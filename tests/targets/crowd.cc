#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

#include "tests/targets/meter.h"
#include "tests/targets/scenarios.h"

namespace waiter {
namespace crowd {
namespace {

constexpr size_t kStack = 32 << 10;

std::atomic<int> begun{0};
std::atomic<uint32_t> futex{0};  // nobody wakes it
int silent[2];                   // a pipe that nobody writes

void StartSmall(const char* name, void* (*body)(void*), int64_t argument) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStack);
  pthread_t thread;
  Check(pthread_create(&thread, &attributes, body, reinterpret_cast<void*>(argument)) == 0,
        "pthread_create");
  pthread_attr_destroy(&attributes);
  pthread_setname_np(thread, name);
}

}  // namespace

KEEP_FRAME void OnFutex() {
  syscall(SYS_futex, &futex, FUTEX_WAIT_PRIVATE, 0, nullptr, nullptr, 0);
}
KEEP_FRAME void InPoll() {
  pollfd fd{silent[0], POLLIN, 0};
  poll(&fd, 1, -1);
}
KEEP_FRAME void InRead() {
  char byte;
  (void)!read(silent[0], &byte, 1);
}
KEEP_FRAME void InSleep() { sleep(24 * 3600); }

KEEP_FRAME void* Idler(void* number) {
  const auto way = reinterpret_cast<int64_t>(number) % 4;
  ++begun;
  while (true) {
    if (way == 0) OnFutex();
    if (way == 1) InPoll();
    if (way == 2) InRead();
    if (way == 3) InSleep();
  }
}

KEEP_FRAME void* Worker(void* naps) {
  Meter meter("worker");
  for (int64_t i = *static_cast<int64_t*>(naps); i > 0; --i) MeteredSleep(&meter, 20'000);
  return nullptr;
}

}  // namespace crowd

void Crowd(const Arguments& arguments) {
  const auto idlers = static_cast<int>(arguments.Number(0, 1000));
  int64_t naps = arguments.Number(1, 50);
  Check(pipe(crowd::silent) == 0, "pipe");
  for (int i = 0; i < idlers; ++i) crowd::StartSmall("idler", crowd::Idler, i);
  while (crowd::begun.load() < idlers) usleep(10'000);
  Stop("crowded");
  pthread_t workers[8];
  for (pthread_t& worker : workers) worker = Start(crowd::Worker, &naps);
  for (const pthread_t worker : workers) Join(worker);
}

}  // namespace waiter
