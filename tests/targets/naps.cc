#include <sched.h>
#include <sys/resource.h>

#include <cstdio>
#include <ctime>
#include <random>

#include "tests/targets/meter.h"
#include "tests/targets/scenarios.h"

namespace waiter {
namespace naps {

struct Plan {
  int64_t us, count;
};

KEEP_FRAME void Inner(Meter* meter, int64_t us) { MeteredSleep(meter, us); }

KEEP_FRAME void Outer(Meter* meter, const Plan& plan) {
  for (int64_t i = 0; i < plan.count; ++i) Inner(meter, plan.us);
}

KEEP_FRAME void* Thread(void* argument) {
  Meter meter("napper");
  Outer(&meter, *static_cast<Plan*>(argument));
  return nullptr;
}

}  // namespace naps

void Naps(const Arguments& arguments) {
  naps::Plan plan{arguments.Number(0, 50'000), arguments.Number(1, 60)};
  Join(Start(naps::Thread, &plan));
}

namespace two_paths {

struct Plan {
  int64_t ms;
  uint64_t seed;
};

KEEP_FRAME void LongPath(Meter* meter, int64_t us) { MeteredSleep(meter, us, 1); }
KEEP_FRAME void ShortPath(Meter* meter, int64_t us) { MeteredSleep(meter, us, 2); }

KEEP_FRAME void* Thread(void* argument) {
  const Plan& plan = *static_cast<Plan*>(argument);
  Meter meter("two-paths");
  std::mt19937_64 random(plan.seed);
  std::uniform_int_distribution<int64_t> long_us(1'000, 59'000), short_us(300, 19'700);
  const int64_t end = Now() + plan.ms * 1'000'000;
  while (Now() < end) {
    LongPath(&meter, long_us(random));
    ShortPath(&meter, short_us(random));
  }
  return nullptr;
}

}  // namespace two_paths

void TwoPaths(const Arguments& arguments) {
  two_paths::Plan plan{arguments.Number(0, 3000), static_cast<uint64_t>(arguments.Number(1, 1))};
  Join(Start(two_paths::Thread, &plan));
}

namespace migrate {

KEEP_FRAME void MoveAndNap(Meter* meter, int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  Check(sched_setaffinity(0, sizeof(set), &set) == 0, "sched_setaffinity");
  MeteredSleep(meter, 5'000);
}

KEEP_FRAME void* Thread(void* argument) {
  Meter meter("migrant");
  cpu_set_t allowed;
  Check(sched_getaffinity(0, sizeof(allowed), &allowed) == 0, "sched_getaffinity");
  int cpus[2] = {-1, -1};
  for (int cpu = 0, found = 0; cpu < CPU_SETSIZE && found < 2; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) cpus[found++] = cpu;
  }
  Check(cpus[1] >= 0, "two CPUs are needed");
  const int64_t count = *static_cast<int64_t*>(argument);
  for (int64_t i = 0; i < count; ++i) MoveAndNap(&meter, cpus[i % 2]);
  return nullptr;
}

}  // namespace migrate

void Migrate(const Arguments& arguments) {
  int64_t count = arguments.Number(0, 400);
  Join(Start(migrate::Thread, &count));
}

namespace leave {

struct Left {
  int64_t rounds;
  int64_t often = 0, seldom = 0;  // times that the thread gave up its CPU
};

int64_t GivenUp() {
  rusage usage{};
  Check(getrusage(RUSAGE_THREAD, &usage) == 0, "getrusage");
  return usage.ru_nvcsw;
}

// Each returns how often the thread gave up its CPU in there.
KEEP_FRAME int64_t Nap(int times) {
  const timespec nap = {.tv_sec = 0, .tv_nsec = 300'000};
  const int64_t before = GivenUp();
  for (int i = 0; i < times; ++i) clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, nullptr);
  return GivenUp() - before;
}

KEEP_FRAME int64_t NapOften() { return Nap(9); }
KEEP_FRAME int64_t NapSeldom() { return Nap(3); }

KEEP_FRAME void* Thread(void* argument) {
  Left& left = *static_cast<Left*>(argument);
  Meter meter("leaver");
  for (int64_t i = 0; i < left.rounds; ++i) {
    left.often += NapOften();
    left.seldom += NapSeldom();
  }
  return nullptr;
}

}  // namespace leave

void Leave(const Arguments& arguments) {
  leave::Left left{arguments.Number(0, 500)};
  Join(Start(leave::Thread, &left));
  char where[100];
  snprintf(where, sizeof(where), "left {\"often\": %lld, \"seldom\": %lld}",
           static_cast<long long>(left.often), static_cast<long long>(left.seldom));
  Stop(where);
}

}  // namespace waiter
