#include <sched.h>

#include <cstdio>
#include <vector>

#include "tests/targets/meter.h"
#include "tests/targets/scenarios.h"

namespace waiter {
namespace spin {

struct Plan {
  int64_t end;
  int cpu;
};

KEEP_FRAME void Compute(int64_t end) {
  volatile uint64_t sink = 0;
  while (Now() < end) {
    for (int i = 0; i < 1000; ++i) sink = sink + static_cast<uint64_t>(i);
  }
}

KEEP_FRAME void* Thread(void* argument) {
  const Plan& plan = *static_cast<Plan*>(argument);
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(plan.cpu, &set);
  Check(sched_setaffinity(0, sizeof(set), &set) == 0, "sched_setaffinity");
  Meter meter("spinner");
  // It waits for nothing but its CPU in there.
  meter.Begin();
  Compute(plan.end);
  meter.End();
  return nullptr;
}

}  // namespace spin

void Spin(const Arguments& arguments) {
  cpu_set_t allowed;
  Check(sched_getaffinity(0, sizeof(allowed), &allowed) == 0, "sched_getaffinity");
  int cpu = 0;
  while (!CPU_ISSET(cpu, &allowed)) ++cpu;
  spin::Plan plan{Now() + arguments.Number(0, 2000) * 1'000'000, cpu};
  std::vector<pthread_t> threads;
  for (int64_t i = arguments.Number(1, 3); i > 0; --i) {
    threads.push_back(Start(spin::Thread, &plan));
  }
  for (const pthread_t thread : threads) Join(thread);
}

namespace burn {

constexpr int64_t kPart = 1'000'000;  // ns of CPU time

// Each returns how much CPU time it took.
KEEP_FRAME int64_t Compute(int64_t ns) {
  const int64_t begin = ThreadCpu();
  volatile uint64_t sink = 0;
  int64_t took = 0;
  do {
    for (int i = 0; i < 1000; ++i) sink = sink + static_cast<uint64_t>(i);
    took = ThreadCpu() - begin;
  } while (took < ns);
  return took;
}

KEEP_FRAME int64_t BurnLong() { return Compute(3 * kPart); }
KEEP_FRAME int64_t BurnShort() { return Compute(kPart); }

struct Burnt {
  int64_t all;  // that is to be used
  int64_t in_long = 0, in_short = 0;
};

KEEP_FRAME void* Thread(void* argument) {
  Burnt& burnt = *static_cast<Burnt*>(argument);
  Meter meter("burner");
  while (burnt.in_long + burnt.in_short < burnt.all) {
    burnt.in_long += BurnLong();
    burnt.in_short += BurnShort();
  }
  return nullptr;
}

}  // namespace burn

void Burn(const Arguments& arguments) {
  burn::Burnt burnt{arguments.Number(0, 2000) * 1'000'000};
  Join(Start(burn::Thread, &burnt));
  char where[100];
  snprintf(where, sizeof(where), "burnt {\"long\": %lld, \"short\": %lld}",
           static_cast<long long>(burnt.in_long), static_cast<long long>(burnt.in_short));
  Stop(where);
}

namespace clocks {

constexpr int kReadsAtOnce = 1000;

// Reads the clock for `ns` of CPU time.
KEEP_FRAME int64_t ReadClocks(int64_t ns) {
  const int64_t end = ThreadCpu() + ns;
  int64_t sum = 0;
  while (ThreadCpu() < end) {
    for (int i = 0; i < kReadsAtOnce; ++i) sum += Now();
  }
  return sum;
}

KEEP_FRAME void* Thread(void* argument) {
  Meter meter("reader");
  volatile int64_t sum = ReadClocks(*static_cast<const int64_t*>(argument));
  (void)sum;
  return nullptr;
}

}  // namespace clocks

void Clocks(const Arguments& arguments) {
  int64_t ns = arguments.Number(0, 2000) * 1'000'000;
  Join(Start(clocks::Thread, &ns));
  Stop("read");
}

}  // namespace waiter
