#include <cstdio>

#include "tests/targets/meter.h"
#include "tests/targets/scenarios.h"

namespace waiter {
namespace inlined {

struct Plan {
  int64_t us, count;
};

// Lines of the calls: those below these.
constexpr int kInnerLine = __LINE__ + 1;
[[gnu::always_inline]] inline void Inner(Meter* meter, int64_t us) { MeteredSleep(meter, us); }

constexpr int kMiddleLine = __LINE__ + 1;
[[gnu::always_inline]] inline void Middle(Meter* meter, int64_t us) { Inner(meter, us); }

constexpr int kOuterLine = __LINE__ + 3;
KEEP_FRAME void Outer(Meter* meter, const Plan& plan) {
  for (int64_t i = 0; i < plan.count; ++i) {
    Middle(meter, plan.us);
  }
}

KEEP_FRAME void* Thread(void* argument) {
  Meter meter("inliner");
  Outer(&meter, *static_cast<Plan*>(argument));
  return nullptr;
}

}  // namespace inlined

void Inlined(const Arguments& arguments) {
  char text[128];
  snprintf(text, sizeof(text), "lines {\"inner\": %d, \"middle\": %d, \"outer\": %d}",
           inlined::kInnerLine, inlined::kMiddleLine, inlined::kOuterLine);
  Stop(text);
  inlined::Plan plan{arguments.Number(0, 20'000), arguments.Number(1, 100)};
  Join(Start(inlined::Thread, &plan));
}

}  // namespace waiter
