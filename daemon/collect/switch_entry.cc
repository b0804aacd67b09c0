#include "daemon/collect/switch_entry.h"

#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <thread>

#include "daemon/base/clock.h"
#include "daemon/base/fd.h"

namespace profd {
namespace {

constexpr int kRounds = 24;
constexpr int kTrips = 100;

// The calling thread stays on the first CPU that it may use.
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

bool Send(int event) {
  const uint64_t one = 1;
  return write(event, &one, sizeof(one)) == sizeof(one);
}

bool Receive(int event) {
  uint64_t count = 0;
  return read(event, &count, sizeof(count)) == sizeof(count);
}

// Sends everything back.
void Echo(int there, int back) {
  StayOnOneCpu();
  for (int trip = 0; trip < kRounds * kTrips; ++trip) {
    if (!Receive(there) || !Send(back)) return;
  }
}

}  // namespace

void MeasureSwitches(std::vector<double>* rounds) {
  const UniqueFd there(eventfd(0, EFD_CLOEXEC));
  const UniqueFd back(eventfd(0, EFD_CLOEXEC));
  if (!there.ok() || !back.ok()) return;
  std::thread caller([&] {
    if (!StayOnOneCpu()) return;
    std::thread echo(Echo, there.get(), back.get());
    for (int round = 0; round < kRounds; ++round) {
      const int64_t begin = ThreadCpuNs();
      for (int trip = 0; trip < kTrips; ++trip) {
        Send(there.get());
        Receive(back.get());
      }
      // Of the two switches of a trip one is in this thread's time.
      rounds->push_back(static_cast<double>(ThreadCpuNs() - begin) / kTrips);
    }
    echo.join();
  });
  caller.join();
}

}  // namespace profd
