#include <linux/futex.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "tests/bench/load/load.h"

namespace load {
namespace {

// Whose turn it is: 0 the pacer's, 1 the echo's. On a cache line of its own.
struct alignas(128) Pair {
  std::atomic<uint32_t> turn{0};
  std::atomic<int64_t> echo_switches{0};
  double rate = 0;  // context switches a second; 0 = no pause
  int cpu = 0;
};

// Context switches of the calling thread so far. A waker is often preempted by whom it wakes, so
// that a round is two to four of them: they are counted, not computed.
int64_t Switches() {
  rusage usage;
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw + usage.ru_nivcsw;
}

KEEP_FRAME void Await(std::atomic<uint32_t>* turn, uint32_t mine) {
  for (uint32_t seen = turn->load(); seen != mine; seen = turn->load()) {
    syscall(SYS_futex, turn, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
  }
}

KEEP_FRAME void Pass(std::atomic<uint32_t>* turn, uint32_t to) {
  turn->store(to);
  syscall(SYS_futex, turn, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

void Hold(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  Check(sched_setaffinity(0, sizeof(set), &set) == 0, "sched_setaffinity");
}

KEEP_FRAME void* Echo(void* argument) {
  auto* pair = static_cast<Pair*>(argument);
  Hold(pair->cpu);
  while (!g_stop) {
    Await(&pair->turn, 1);
    if (pair->rate > 0) pair->echo_switches = Switches();
    Pass(&pair->turn, 0);
  }
  return nullptr;
}

KEEP_FRAME void Round(Pair* pair) {
  Pass(&pair->turn, 1);
  Await(&pair->turn, 0);
}

KEEP_FRAME void* Pace(void* argument) {
  auto* pair = static_cast<Pair*>(argument);
  Hold(pair->cpu);
  if (pair->rate == 0) {
    while (!g_stop) Round(pair);
    return nullptr;
  }
  const int64_t pause_ns = std::max<int64_t>(1'000'000, static_cast<int64_t>(10e9 / pair->rate));
  int64_t last = Now();
  double owed = 0;
  for (int64_t before = 0; !g_stop;) {
    const int64_t now = Now();
    // A machine that cannot keep up is not asked to catch up.
    owed = std::min(owed + static_cast<double>(now - last) / 1e9 * pair->rate, pair->rate / 5);
    last = now;
    while (owed > 0 && !g_stop) {
      Round(pair);
      const int64_t switches = Switches() + pair->echo_switches;
      owed -= static_cast<double>(switches - before);
      before = switches;
    }
    Sleep(pause_ns);
  }
  return nullptr;
}

}  // namespace

void StartSwitches(int64_t rate, bool any_rate, int pairs) {
  if (rate == 0 && !any_rate) return;
  const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
  auto* all = new Pair[static_cast<size_t>(pairs)];  // lives as long as the process
  for (int i = 0; i < pairs; ++i) {
    all[i].rate = any_rate ? 0 : static_cast<double>(rate) / pairs;
    all[i].cpu = static_cast<int>(i % cpus);
    Start("echo", Echo, &all[i]);
    Start("pace", Pace, &all[i]);
  }
}

}  // namespace load
