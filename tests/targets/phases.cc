// Two phases of known difference: all threads sleep in two places in turn. In the second phase the
// thread "changing" sleeps longer in one place and shorter in the other; the others go on as
// before.
#include <array>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <iterator>
#include <string>

#include "tests/targets/meter.h"
#include "tests/targets/scenarios.h"

namespace waiter {
namespace phases {

constexpr int kPlaces = 2;

struct Sleeper {
  const char* name;
  // Microseconds in each place, by phase.
  std::array<std::array<int64_t, kPlaces>, 2> us;
  // What was asked for until now, ns.
  std::array<std::atomic<int64_t>, kPlaces> asked_ns{};
};

Sleeper sleepers[] = {
    {"changing", {{{3'000, 9'000}, {9'000, 3'000}}}},
    {"steady-a", {{{7'000, 5'000}, {7'000, 5'000}}}},
    {"steady-b", {{{2'000, 8'000}, {2'000, 8'000}}}},
    {"steady-c", {{{11'000, 4'000}, {11'000, 4'000}}}},
    {"steady-d", {{{6'000, 6'000}, {6'000, 6'000}}}},
    {"steady-e", {{{3'000, 15'000}, {3'000, 15'000}}}},
    {"steady-f", {{{9'000, 2'000}, {9'000, 2'000}}}},
};

std::atomic<int> phase;
std::atomic<bool> over;

KEEP_FRAME void FirstPlace(Meter* meter, int64_t us) { MeteredSleep(meter, us, 1); }
KEEP_FRAME void SecondPlace(Meter* meter, int64_t us) { MeteredSleep(meter, us, 2); }

KEEP_FRAME void* Thread(void* argument) {
  Sleeper& self = *static_cast<Sleeper*>(argument);
  Meter meter(self.name);
  while (!over) {
    const std::array<int64_t, kPlaces>& us = self.us[static_cast<size_t>(phase.load())];
    FirstPlace(&meter, us[0]);
    self.asked_ns[0] += us[0] * 1'000;
    SecondPlace(&meter, us[1]);
    self.asked_ns[1] += us[1] * 1'000;
  }
  return nullptr;
}

// "phase 1", the time, and what each thread asked for in each place until now, ns.
std::string Account() {
  std::string line = "phase " + std::to_string(phase + 1) + " " + std::to_string(Now());
  for (const Sleeper& sleeper : sleepers) {
    for (const std::atomic<int64_t>& ns : sleeper.asked_ns) line += " " + std::to_string(ns.load());
  }
  return line;
}

}  // namespace phases

void Phases(const Arguments& arguments) {
  pthread_t threads[std::size(phases::sleepers)];
  for (size_t i = 0; i < std::size(threads); i++) {
    threads[i] = Start(phases::Thread, &phases::sleepers[i]);
  }
  for (int64_t left = arguments.Number(0, 10); left > 0; left--) {
    Stop(phases::Account().c_str());
    Stop(phases::Account().c_str());  // the end of the phase
    phases::phase = 1 - phases::phase;
  }
  phases::over = true;
  for (const pthread_t thread : threads) Join(thread);
}

}  // namespace waiter
