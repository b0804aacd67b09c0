#include <semaphore.h>
#include <unistd.h>

#include <cstdio>

#include "tests/targets/meter.h"
#include "tests/targets/scenarios.h"

namespace waiter {
namespace chain {

constexpr int64_t kGrindNs = 6'000'000, kChewNs = 10'000'000, kNapUs = 20'000;

struct Rounds {
  int64_t count = 0;
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  sem_t start, next;
  int pipe[2];
  // Wall-clock time of the parts of all rounds, ns.
  int64_t waits = 0, chew = 0, grind = 0, nap = 0;
  // CPU time of the threads, ns.
  int64_t middle_cpu = 0, back_cpu = 0;
  int64_t off_cpu = 0;  // time of the first that was none, ns
};

KEEP_FRAME void Grind(Rounds* rounds) {
  const int64_t begin = Now();
  UseCpu(kGrindNs);
  rounds->grind += Now() - begin;
}

KEEP_FRAME void Nap(Rounds* rounds) {
  const int64_t begin = Now();
  usleep(kNapUs);
  rounds->nap += Now() - begin;
}

KEEP_FRAME void Hold(Rounds* rounds) {
  pthread_mutex_lock(&rounds->mutex);
  sem_post(&rounds->start);
  Grind(rounds);
  Nap(rounds);
  pthread_mutex_unlock(&rounds->mutex);
}

KEEP_FRAME void* Back(void* argument) {
  auto* rounds = static_cast<Rounds*>(argument);
  Meter meter("back");
  for (int64_t i = 0; i < rounds->count; ++i) {
    Hold(rounds);
    sem_wait(&rounds->next);
  }
  rounds->back_cpu = ThreadCpu();
  return nullptr;
}

KEEP_FRAME void TakeTurn(Rounds* rounds) {
  pthread_mutex_lock(&rounds->mutex);
  pthread_mutex_unlock(&rounds->mutex);
}

KEEP_FRAME void Chew(Rounds* rounds) {
  const int64_t begin = Now();
  UseCpu(kChewNs);
  rounds->chew += Now() - begin;
}

KEEP_FRAME void Deliver(Rounds* rounds) { Check(write(rounds->pipe[1], "x", 1) == 1, "write"); }

KEEP_FRAME void* Middle(void* argument) {
  auto* rounds = static_cast<Rounds*>(argument);
  Meter meter("middle");
  for (int64_t i = 0; i < rounds->count; ++i) {
    sem_wait(&rounds->start);
    TakeTurn(rounds);
    Chew(rounds);
    Deliver(rounds);
  }
  rounds->middle_cpu = ThreadCpu();
  return nullptr;
}

KEEP_FRAME void AwaitResult(Rounds* rounds) {
  char byte = 0;
  const int64_t begin = Now();
  Check(read(rounds->pipe[0], &byte, 1) == 1, "read");
  rounds->waits += Now() - begin;
}

KEEP_FRAME void* Front(void* argument) {
  auto* rounds = static_cast<Rounds*>(argument);
  Meter meter("front");
  const int64_t begin = Now();
  for (int64_t i = 0; i < rounds->count; ++i) {
    AwaitResult(rounds);
    sem_post(&rounds->next);
  }
  rounds->off_cpu = Now() - begin - ThreadCpu();
  return nullptr;
}

}  // namespace chain

void Chain(const Arguments& arguments) {
  chain::Rounds rounds;
  rounds.count = arguments.Number(0, 100);
  sem_init(&rounds.start, 0, 0);
  sem_init(&rounds.next, 0, 0);
  Check(pipe(rounds.pipe) == 0, "pipe");
  const pthread_t front = Start(chain::Front, &rounds);
  const pthread_t middle = Start(chain::Middle, &rounds);
  const pthread_t back = Start(chain::Back, &rounds);
  Join(front);
  Join(middle);
  Join(back);
  char where[300];
  snprintf(where, sizeof(where),
           "chained {\"waits\": %lld, \"chew\": %lld, \"grind\": %lld, \"nap\": %lld, "
           "\"middle_cpu\": %lld, \"back_cpu\": %lld, \"off_cpu\": %lld}",
           static_cast<long long>(rounds.waits), static_cast<long long>(rounds.chew),
           static_cast<long long>(rounds.grind), static_cast<long long>(rounds.nap),
           static_cast<long long>(rounds.middle_cpu), static_cast<long long>(rounds.back_cpu),
           static_cast<long long>(rounds.off_cpu));
  Stop(where);
}

}  // namespace waiter
