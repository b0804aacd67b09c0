#include <fcntl.h>
#include <semaphore.h>
#include <unistd.h>

#include <iterator>

#include "tests/targets/meter.h"
#include "tests/targets/scenarios.h"

namespace waiter {
namespace stalls {

constexpr int64_t kBriefUs = 5'000;
constexpr int64_t kStallUs[] = {300'000, 200'000, 600'000};

struct Shared {
  sem_t gate, passed;
  int64_t briefs;  // before each stall
};

KEEP_FRAME void Brief(Meter* meter, Shared* shared) {
  meter->Begin();
  sem_wait(&shared->gate);
  meter->End(1);
}

KEEP_FRAME void Stall(Meter* meter, Shared* shared) {
  meter->Begin();
  sem_wait(&shared->gate);
  meter->End(2);
}

KEEP_FRAME void* Stalled(void* argument) {
  auto* shared = static_cast<Shared*>(argument);
  Meter meter("stalled");
  for (size_t i = 0; i < std::size(kStallUs); ++i) {
    for (int64_t j = 0; j < shared->briefs; ++j) {
      Brief(&meter, shared);
      sem_post(&shared->passed);
    }
    Stall(&meter, shared);
    sem_post(&shared->passed);
  }
  return nullptr;
}

KEEP_FRAME void Release(Meter* meter, Shared* shared, int64_t us) {
  MeteredSleep(meter, us);
  sem_post(&shared->gate);
  sem_wait(&shared->passed);
}

KEEP_FRAME void* Releaser(void* argument) {
  auto* shared = static_cast<Shared*>(argument);
  Meter meter("releaser");
  for (const int64_t stall : kStallUs) {
    for (int64_t j = 0; j < shared->briefs; ++j) Release(&meter, shared, kBriefUs);
    Release(&meter, shared, stall);
  }
  return nullptr;
}

KEEP_FRAME void* Forever(void*) {
  Meter meter("forever");
  int fds[2];
  char c;
  Check(pipe2(fds, O_CLOEXEC) == 0, "pipe2");
  meter.Publish();
  Check(read(fds[0], &c, 1) == 1, "read");
  return nullptr;
}

}  // namespace stalls

void Stalls(const Arguments& arguments) {
  stalls::Shared shared;
  shared.briefs = arguments.Number(0, 40);
  sem_init(&shared.gate, 0, 0);
  sem_init(&shared.passed, 0, 0);
  Start(stalls::Forever);
  const pthread_t stalled = Start(stalls::Stalled, &shared);
  const pthread_t releaser = Start(stalls::Releaser, &shared);
  Join(releaser);
  Join(stalled);
}

}  // namespace waiter
