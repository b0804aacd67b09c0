#include "daemon/source/switch_entry.h"

#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <thread>

#include "daemon/base/clock.h"
#include "daemon/base/fd.h"
#include "daemon/base/start_thread.h"

namespace profd {
namespace {

constexpr int kRounds = 16;
constexpr int kTrips = 25;
// If other threads want the same CPU, a trip may take milliseconds, and few rounds must suffice.
constexpr int kLeastRounds = 2;
constexpr int64_t kMostNs = 25'000'000;
// The word to pass, and the word that ends it.
constexpr uint64_t kTrip = 1;
constexpr uint64_t kEnd = 2;

// Pins the calling thread to the first CPU that it may use.
bool StayOnOneCpu() {
  cpu_set_t allowed;
  if (pthread_getaffinity_np(pthread_self(), sizeof(allowed), &allowed) != 0) return false;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return pthread_setaffinity_np(pthread_self(), sizeof(one), &one) == 0;
  }
  return false;
}

bool Send(int event, uint64_t word) { return write(event, &word, sizeof(word)) == sizeof(word); }

bool Receive(int event, uint64_t* word) {
  return read(event, word, sizeof(*word)) == sizeof(*word);
}

// Sends every word back.
void Echo(int there, int back) {
  StayOnOneCpu();
  uint64_t word = 0;
  while (Receive(there, &word) && word == kTrip && Send(back, word)) {
  }
}

}  // namespace

void MeasureSwitches(std::vector<double>* rounds) {
  const UniqueFd there(eventfd(0, EFD_CLOEXEC));
  const UniqueFd back(eventfd(0, EFD_CLOEXEC));
  if (!there.ok() || !back.ok()) return;
  std::optional<std::thread> caller = StartThread([&] {
    if (!StayOnOneCpu()) return;
    std::optional<std::thread> echo = StartThread(Echo, there.get(), back.get());
    if (!echo) return;
    const int64_t end = MonotonicNs() + kMostNs;
    for (int round = 0; round < kRounds && (round < kLeastRounds || MonotonicNs() < end); ++round) {
      const int64_t begin = ThreadCpuNs();
      for (int trip = 0; trip < kTrips; ++trip) {
        uint64_t word = 0;
        Send(there.get(), kTrip);
        Receive(back.get(), &word);
      }
      // One of the two switches of a trip is in the time of this thread.
      rounds->push_back(static_cast<double>(ThreadCpuNs() - begin) / kTrips);
    }
    Send(there.get(), kEnd);
    echo->join();
  });
  if (caller) caller->join();
}

}  // namespace profd
