#include <dlfcn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "tests/targets/meter.h"
#include "tests/targets/scenarios.h"

namespace waiter {
namespace short_threads {

KEEP_FRAME void* Thread(void*) {
  Meter meter("short-lived");
  MeteredSleep(&meter, 50'000);
  return nullptr;
}

}  // namespace short_threads

void ShortThreads(const Arguments& arguments) {
  for (int64_t i = arguments.Number(0, 40); i > 0; i -= 2) {
    const pthread_t one = Start(short_threads::Thread);
    const pthread_t two = Start(short_threads::Thread);
    Join(one);
    Join(two);
  }
}

namespace storm {

int64_t ClockNs(clockid_t clock) {
  timespec time{};
  Check(clock_gettime(clock, &time) == 0, "clock_gettime");
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

KEEP_FRAME void* Thread(void* argument) {
  const int64_t ns = *static_cast<const int64_t*>(argument);
  while (ClockNs(CLOCK_THREAD_CPUTIME_ID) < ns) {
  }
  return nullptr;
}

}  // namespace storm

void Storm(const Arguments& arguments) {
  const int64_t ns = arguments.Number(1, 500) * 1'000;
  for (int64_t i = arguments.Number(0, 2'000); i > 0; --i) {
    pthread_t thread;
    Check(pthread_create(&thread, nullptr, storm::Thread, const_cast<int64_t*>(&ns)) == 0,
          "pthread_create");
    Join(thread);
  }
  const int64_t used =
      storm::ClockNs(CLOCK_PROCESS_CPUTIME_ID) - storm::ClockNs(CLOCK_THREAD_CPUTIME_ID);
  char where[64];
  snprintf(where, sizeof(where), "stormed %lld", static_cast<long long>(used));
  Stop(where);
}

namespace fork_exec {

KEEP_FRAME void InChild(int64_t ms) {
  Meter meter("forked");
  const int64_t end = Now() + ms * 1'000'000;
  while (Now() < end) MeteredSleep(&meter, 20'000);
}

}  // namespace fork_exec

// The child reports before it execs; what it becomes reports after its own naps.
void Fork(const Arguments& arguments) {
  const int64_t ms = arguments.Number(0, 1500);
  const pid_t child = fork();
  Check(child >= 0, "fork");
  if (child == 0) {
    fork_exec::InChild(ms);
    PrintReport();
    const std::string count = std::to_string(ms / 50);
    execl(arguments.program, arguments.program, "naps", "50000", count.c_str(), nullptr);
    Check(false, "exec");
  }
  int status;
  Check(waitpid(child, &status, 0) == child && status == 0, "waitpid");
}

namespace plugin {

struct Plan {
  int64_t count;
  const char* path;
};

KEEP_FRAME void* Thread(void* argument) {
  const Plan& plan = *static_cast<Plan*>(argument);
  Meter meter("plugin");
  void* library = dlopen(plan.path, RTLD_NOW);
  Check(library != nullptr, "dlopen");
  auto* nap = reinterpret_cast<void (*)(int64_t)>(dlsym(library, "PluginNap"));
  Check(nap != nullptr, "dlsym");
  for (int64_t i = 0; i < plan.count; ++i) {
    meter.Begin();
    nap(20'000);
    meter.End();
  }
  // Unloaded before anyone asks for the profile.
  dlclose(library);
  return nullptr;
}

}  // namespace plugin

void Plugin(const Arguments& arguments) {
  plugin::Plan plan{arguments.Number(0, 150), arguments.Text(1)};
  Join(Start(plugin::Thread, &plan));
}

}  // namespace waiter
