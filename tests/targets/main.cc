// waiter SCENARIO [ARGUMENT...]: says "ready", waits for a line on stdin, runs the scenario,
// prints what it measured as a line of JSON, and ends when stdin is closed.
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/targets/meter.h"
#include "tests/targets/scenarios.h"

namespace waiter {

int64_t Arguments::Number(int index, int64_t otherwise) const {
  return index < count ? strtoll(values[index], nullptr, 10) : otherwise;
}

const char* Arguments::Text(int index) const { return index < count ? values[index] : ""; }

namespace {

struct Scenario {
  const char* name;
  void (*run)(const Arguments&);
};

constexpr Scenario kScenarios[] = {
    {"naps", Naps},  // the comment keeps one on a line
    {"two-paths", TwoPaths},
    {"migrate", Migrate},
    {"mutex", Mutex},
    {"poll", Poll},
    {"stuck", Stuck},
    {"deadlock", Deadlock},
    {"reasons", Reasons},
    {"slow-pipe", SlowPipe},
    {"fsync", Fsync},
    {"spin", Spin},
    {"big-frame", BigFrame},
    {"deep", Deep},
    {"coroutine", Coroutine},
    {"signal", Signal},
    {"short-threads", ShortThreads},
    {"fork", Fork},
    {"plugin", Plugin},
    {"surge", Surge},
    {"memory", Memory},
    {"touch", Touch},
    {"maps", Maps},
    {"storm", Storm},
    {"burn", Burn},
    {"clocks", Clocks},
    {"jit", Jit},
    {"disk", Disk},
    {"wakers", Wakers},
    {"phases", Phases},
    {"chain", Chain},
    {"delays", Delays},
    {"inlined", Inlined},
    {"stalls", Stalls},
    {"locks", Locks},
    {"now", LookAtMe},
    {"stages", Stages},
    {"objects", Objects},
    {"ends", Ends},  // of pipes and connections
    {"crowd", Crowd},
    {"sync", Sync},
    {"queue", Queue},
    {"leave", Leave},
    {"held", Held},
    {"kernel-locks", KernelLocks},
};

}  // namespace

// Byte by byte: what follows the line belongs to whoever reads next.
KEEP_FRAME bool AwaitLine() {
  char c;
  while (read(STDIN_FILENO, &c, 1) == 1) {
    if (c == '\n') return true;
  }
  return false;
}

void Stop(const char* where) {
  printf("%s\n", where);
  fflush(stdout);
  if (!AwaitLine()) _exit(0);  // nobody says go
}

}  // namespace waiter

int main(int argc, char** argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: waiter SCENARIO [ARGUMENT...]\n");
    return 2;
  }
  const waiter::Arguments arguments{argv[0], argc - 2, argv + 2};
  for (const auto& scenario : waiter::kScenarios) {
    if (strcmp(scenario.name, argv[1]) != 0) continue;
    printf("ready %d\n", getpid());
    fflush(stdout);
    if (!waiter::AwaitLine()) return 0;
    scenario.run(arguments);
    waiter::PrintReport();
    while (waiter::AwaitLine()) {
    }
    _exit(0);  // threads may be blocked for good
  }
  fprintf(stderr, "waiter: no scenario '%s'\n", argv[1]);
  return 2;
}
