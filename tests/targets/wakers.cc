#include <semaphore.h>

#include "tests/targets/meter.h"
#include "tests/targets/scenarios.h"

namespace waiter {
namespace wakers {

constexpr int64_t kShortUs = 10'000, kLongUs = 30'000;

struct Shared {
  sem_t gate, passed;
  int64_t count;
};

KEEP_FRAME void Await(Meter* meter, Shared* shared, int path) {
  meter->Begin();
  sem_wait(&shared->gate);
  meter->End(path);
}

KEEP_FRAME void* Woken(void* argument) {
  auto* shared = static_cast<Shared*>(argument);
  Meter meter("woken");
  meter.CountDelay();
  for (int64_t i = 0; i < shared->count; ++i) {
    Await(&meter, shared, 1);
    sem_post(&shared->passed);
    Await(&meter, shared, 2);
    sem_post(&shared->passed);
  }
  return nullptr;
}

KEEP_FRAME void ReleaseShort(Shared* shared) { sem_post(&shared->gate); }
KEEP_FRAME void ReleaseLong(Shared* shared) { sem_post(&shared->gate); }

KEEP_FRAME void* Waker(void* argument) {
  auto* shared = static_cast<Shared*>(argument);
  Meter meter("waker");
  for (int64_t i = 0; i < shared->count; ++i) {
    MeteredSleep(&meter, kShortUs);
    ReleaseShort(shared);
    sem_wait(&shared->passed);
    MeteredSleep(&meter, kLongUs);
    ReleaseLong(shared);
    sem_wait(&shared->passed);
  }
  return nullptr;
}

}  // namespace wakers

void Wakers(const Arguments& arguments) {
  wakers::Shared shared;
  shared.count = arguments.Number(0, 100);
  sem_init(&shared.gate, 0, 0);
  sem_init(&shared.passed, 0, 0);
  const pthread_t woken = Start(wakers::Woken, &shared);
  const pthread_t waker = Start(wakers::Waker, &shared);
  Join(waker);
  Join(woken);
}

}  // namespace waiter
