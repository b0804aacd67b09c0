#include "daemon/source/switch_entry.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <latch>
#include <optional>
#include <thread>

#include "daemon/base/clock.h"
#include "daemon/base/priority.h"
#include "daemon/base/quantile.h"
#include "daemon/base/start_thread.h"

namespace profd {
namespace {

constexpr int kRounds = 64;
// Of a round. The fewer, the more rounds are undisturbed.
constexpr int kSwitches = 10;
// If other threads want the same CPU, a switch may take milliseconds.
constexpr int64_t kMostNs = 25'000'000;

// Pins the calling thread to the first CPU that it may use.
void StayOnOneCpu() {
  cpu_set_t allowed;
  if (pthread_getaffinity_np(pthread_self(), sizeof(allowed), &allowed) != 0) return;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
    return;
  }
}

// For the calling thread. Two such threads have their CPU to themselves, if real-time priority is
// permitted.
void Prepare() {
  StayOnOneCpu();
  const sched_param priority = {.sched_priority = kRealTimePriority};
  sched_setscheduler(0, SCHED_FIFO, &priority);
}

// Of the calling thread.
int64_t Switches() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw + usage.ru_nivcsw;
}

// Yields for a round. The CPU time of the calling thread from one switch to the next, ns; none if
// it had nobody to yield to, or if the round was not over at `end_ns`, monotonic.
std::optional<double> Round(int64_t end_ns) {
  const int64_t switches_before = Switches();
  const int64_t begin = ThreadCpuNs();
  for (int i = 0; i < kSwitches; ++i) {
    sched_yield();
    if (MonotonicNs() > end_ns) return std::nullopt;
  }
  const int64_t took = ThreadCpuNs() - begin;
  const int64_t switches = Switches() - switches_before;
  if (switches < kSwitches) return std::nullopt;
  return static_cast<double>(took) / static_cast<double>(switches);
}

}  // namespace

void MeasureSwitches(std::vector<double>* rounds) {
  std::optional<std::thread> measurer = StartThread([&] {
    std::atomic<bool> over = false;
    std::latch ready(2);
    std::optional<std::thread> other = StartThread([&] {
      Prepare();
      ready.arrive_and_wait();
      while (!over) sched_yield();
    });
    if (!other) return;
    Prepare();
    ready.arrive_and_wait();
    const int64_t end = MonotonicNs() + kMostNs;
    for (int i = 0; i < kRounds && MonotonicNs() < end; ++i) {
      if (const std::optional<double> ns = Round(end)) rounds->push_back(*ns);
    }
    over = true;
    other->join();
  });
  if (measurer) measurer->join();
}

// The CPU grows faster and slower meanwhile, as its clock and its other users do. So neighbours are
// compared, and the middle differences count. Where it grows slower throughout, a turn with the
// program seems too slow beside the one before it, and too fast beside the one after it: half of
// each.
double EntryNs(std::vector<std::vector<double>> turns) {
  std::vector<double> before, after;  // differences to the turn before, and to the one after
  for (size_t i = 1; i < turns.size(); ++i) {
    if (turns[i].empty() || turns[i - 1].empty()) continue;
    const double later = LowerQuartile(turns[i]) - LowerQuartile(turns[i - 1]);
    if (i % 2 == 1) {
      before.push_back(later);
    } else {
      after.push_back(-later);
    }
  }
  if (before.empty() || after.empty()) return kAssumedEntryNs;
  const double measured = (Median(before) + Median(after)) / 2;
  return measured > 0 ? measured : kAssumedEntryNs;
}

}  // namespace profd
