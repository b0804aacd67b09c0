// Waits for a CPU that others have, and threads that are kept from running.
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <ctime>
#include <new>

#include "tests/targets/meter.h"
#include "tests/targets/scenarios.h"

namespace waiter {
namespace {

void* Shared(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  Check(memory != MAP_FAILED, "mmap");
  return memory;
}

}  // namespace

namespace queue {

constexpr int kHogs = 2;
constexpr int kNice[kHogs] = {0, 5};
constexpr const char* kNames[kHogs] = {"first-hog", "second-hog"};

// Of all processes.
struct Plan {
  std::atomic<int> ready;
  std::atomic<bool> begun, over;
  std::atomic<int64_t> cpu[kHogs];  // that each hog had in between
};

struct Victim {
  Plan* plan;
  int64_t duration, created;
  int64_t waited = 0;
  // From its creation until `waited` starts to count: it may have waited then, too.
  int64_t early = 0;
};

KEEP_FRAME void Compute(int64_t end) {
  volatile uint64_t sink = 0;
  while (Now() < end) {
    for (int i = 0; i < 100; ++i) sink = sink + static_cast<uint64_t>(i);
  }
}

KEEP_FRAME void* VictimThread(void* argument) {
  Victim& victim = *static_cast<Victim*>(argument);
  Meter meter("victim");
  const int64_t begin = Now(), cpu = ThreadCpu();
  victim.early = begin - victim.created;
  victim.plan->begun = true;
  Compute(begin + victim.duration);
  victim.waited = Now() - begin - (ThreadCpu() - cpu);
  victim.plan->over = true;
  return nullptr;
}

// All are on one CPU: what a hog had at its first look after something happened is what it had
// then.
[[noreturn]] void BeHog(Plan* plan, int number) {
  prctl(PR_SET_NAME, kNames[number]);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (setpriority(PRIO_PROCESS, 0, kNice[number]) != 0) _exit(1);
  plan->ready++;
  while (!plan->begun) continue;
  const int64_t begin = ThreadCpu();
  while (!plan->over) continue;
  plan->cpu[number] = ThreadCpu() - begin;
  _exit(0);
}

}  // namespace queue

void Queue(const Arguments& arguments) {
  StayOnOneCpu();
  auto* plan = new (Shared(sizeof(queue::Plan))) queue::Plan{};
  pid_t hogs[queue::kHogs];
  for (int i = 0; i < queue::kHogs; ++i) {
    hogs[i] = fork();
    Check(hogs[i] >= 0, "fork");
    if (hogs[i] == 0) queue::BeHog(plan, i);
  }
  while (plan->ready.load() < queue::kHogs) sched_yield();
  queue::Victim victim{plan, arguments.Number(0, 2000) * 1'000'000, Now()};
  Join(Start(queue::VictimThread, &victim));
  for (const pid_t hog : hogs) {
    int status = 0;
    Check(waitpid(hog, &status, 0) == hog && status == 0, "a hog");
  }
  char where[200];
  snprintf(where, sizeof(where),
           "queued {\"waited\": %lld, \"early\": %lld, \"first\": %lld, \"second\": %lld, "
           "\"first_pid\": %d}",
           static_cast<long long>(victim.waited), static_cast<long long>(victim.early),
           static_cast<long long>(plan->cpu[0]), static_cast<long long>(plan->cpu[1]), hogs[0]);
  Stop(where);
}

namespace held {

constexpr int64_t kHeldUs = 100'000;

void Nap(int64_t us) {
  const timespec time = {us / 1'000'000, us % 1'000'000 * 1'000};
  Check(clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr) == 0, "clock_nanosleep");
}

// A process that does nothing but wait for signals.
pid_t StartIdler(const char* name) {
  const pid_t pid = fork();
  Check(pid >= 0, "fork");
  if (pid > 0) return pid;
  prctl(PR_SET_NAME, name);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  while (true) pause();
}

// How long a process was held, ns: this long at least, and at most.
struct Span {
  int64_t least = 0, most = 0;
};

// Stops the process `count` times.
Span StopIt(pid_t pid, int64_t count) {
  Span span;
  for (int64_t i = 0; i < count; ++i) {
    int status = 0;
    const int64_t before = Now();
    Check(kill(pid, SIGSTOP) == 0, "kill");
    Check(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status), "waitpid");
    const int64_t begin = Now();
    Nap(kHeldUs);
    span.least += Now() - begin;
    Check(kill(pid, SIGCONT) == 0, "kill");
    span.most += Now() - before;
    Check(waitpid(pid, &status, WCONTINUED) == pid, "waitpid");
  }
  return span;
}

// The same as a debugger does it.
Span TraceIt(pid_t pid, int64_t count) {
  Span span;
  Check(ptrace(PTRACE_SEIZE, pid, nullptr, nullptr) == 0, "ptrace");
  for (int64_t i = 0; i < count; ++i) {
    int status = 0;
    const int64_t before = Now();
    Check(ptrace(PTRACE_INTERRUPT, pid, nullptr, nullptr) == 0, "ptrace");
    Check(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status), "waitpid");
    const int64_t begin = Now();
    Nap(kHeldUs);
    span.least += Now() - begin;
    Check(ptrace(PTRACE_CONT, pid, nullptr, nullptr) == 0, "ptrace");
    span.most += Now() - before;
    Nap(kHeldUs / 10);
  }
  return span;
}

}  // namespace held

void Held(const Arguments& arguments) {
  const int64_t count = arguments.Number(0, 10);
  const pid_t stopped = held::StartIdler("stopped"), traced = held::StartIdler("traced");
  held::Nap(held::kHeldUs);
  const held::Span of_signal = held::StopIt(stopped, count);
  const held::Span of_debugger = held::TraceIt(traced, count);
  char where[200];
  snprintf(where, sizeof(where),
           "held {\"stopped\": [%lld, %lld], \"traced\": [%lld, %lld], \"count\": %lld}",
           static_cast<long long>(of_signal.least), static_cast<long long>(of_signal.most),
           static_cast<long long>(of_debugger.least), static_cast<long long>(of_debugger.most),
           static_cast<long long>(count));
  Stop(where);
  for (const pid_t pid : {stopped, traced}) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
}

}  // namespace waiter
