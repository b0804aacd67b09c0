// Waits for threads that wait for a CPU.
#include <sched.h>
#include <semaphore.h>

#include <atomic>
#include <cstdio>

#include "tests/targets/meter.h"
#include "tests/targets/scenarios.h"

namespace waiter {
namespace delays {

constexpr int kCpus = 2;
constexpr int64_t kWorkNs = 4'000'000;

struct Office {
  int64_t count = 0;
  // The first is the clerk's, the second that of the expert and the asker. Each has a hog.
  int cpu[kCpus] = {};
  sem_t ready, asked, answered, passed_on, returned;
  std::atomic<bool> over{false};
  // How long each could run but had no CPU, and how long the asker was off CPU, ns.
  int64_t asker = 0, clerk = 0, expert = 0, off_cpu = 0;
};

void StayOn(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  Check(sched_setaffinity(0, sizeof(set), &set) == 0, "sched_setaffinity");
}

// A CPU that somebody wants all the time.
struct Seat {
  const Office* office;
  int cpu;
};

KEEP_FRAME void* Hog(void* argument) {
  const Seat& seat = *static_cast<const Seat*>(argument);
  Meter meter("hog");
  StayOn(seat.cpu);
  while (!seat.office->over) UseCpu(kWorkNs);
  return nullptr;
}

KEEP_FRAME void Advise(Office* office) {
  sem_wait(&office->passed_on);
  UseCpu(kWorkNs);
  sem_post(&office->returned);
}

KEEP_FRAME void* Expert(void* argument) {
  auto* office = static_cast<Office*>(argument);
  Meter meter("expert");
  StayOn(office->cpu[1]);
  const int64_t before = ThreadDelay();
  sem_post(&office->ready);
  for (int64_t i = 0; i < office->count; ++i) Advise(office);
  office->expert = ThreadDelay() - before;
  return nullptr;
}

KEEP_FRAME void Answer(Office* office) {
  sem_wait(&office->asked);
  UseCpu(kWorkNs);
  sem_post(&office->passed_on);
  sem_wait(&office->returned);
  sem_post(&office->answered);
}

KEEP_FRAME void* Clerk(void* argument) {
  auto* office = static_cast<Office*>(argument);
  Meter meter("clerk");
  StayOn(office->cpu[0]);
  const int64_t before = ThreadDelay();
  sem_post(&office->ready);
  for (int64_t i = 0; i < office->count; ++i) Answer(office);
  office->clerk = ThreadDelay() - before;
  return nullptr;
}

KEEP_FRAME void Ask(Office* office) {
  sem_post(&office->asked);
  sem_wait(&office->answered);
}

KEEP_FRAME void* Asker(void* argument) {
  auto* office = static_cast<Office*>(argument);
  Meter meter("asker");
  StayOn(office->cpu[1]);
  const int64_t begin = Now(), cpu = ThreadCpu();
  for (int64_t i = 0; i < office->count; ++i) Ask(office);
  office->off_cpu = Now() - begin - (ThreadCpu() - cpu);
  office->asker = ThreadDelay();
  return nullptr;
}

// Two CPUs if there are two. A thread that wakes another one on its own CPU may have to leave that
// to it before it can wait for it: then both wait for a CPU at the same time.
void ChooseCpus(Office* office) {
  cpu_set_t allowed;
  Check(sched_getaffinity(0, sizeof(allowed), &allowed) == 0, "sched_getaffinity");
  int chosen = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE && chosen < kCpus; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) office->cpu[chosen++] = cpu;
  }
  if (chosen == 1) office->cpu[1] = office->cpu[0];
}

}  // namespace delays

void Delays(const Arguments& arguments) {
  delays::Office office;
  office.count = arguments.Number(0, 150);
  delays::ChooseCpus(&office);
  for (sem_t* semaphore :
       {&office.ready, &office.asked, &office.answered, &office.passed_on, &office.returned}) {
    sem_init(semaphore, 0, 0);
  }
  delays::Seat seats[delays::kCpus];
  pthread_t hogs[delays::kCpus];
  for (int i = 0; i < delays::kCpus; ++i) {
    seats[i] = {&office, office.cpu[i]};
    hogs[i] = Start(delays::Hog, &seats[i]);
  }
  const pthread_t expert = Start(delays::Expert, &office);
  const pthread_t clerk = Start(delays::Clerk, &office);
  sem_wait(&office.ready);
  sem_wait(&office.ready);
  Join(Start(delays::Asker, &office));
  Join(clerk);
  Join(expert);
  office.over = true;
  for (const pthread_t hog : hogs) Join(hog);
  char where[200];
  snprintf(where, sizeof(where),
           "delayed {\"off_cpu\": %lld, \"asker\": %lld, \"clerk\": %lld, \"expert\": %lld}",
           static_cast<long long>(office.off_cpu), static_cast<long long>(office.asker),
           static_cast<long long>(office.clerk), static_cast<long long>(office.expert));
  Stop(where);
}

}  // namespace waiter
