#include <sched.h>

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

}  // namespace waiter
