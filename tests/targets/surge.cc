#include <sched.h>
#include <unistd.h>

#include "tests/targets/meter.h"
#include "tests/targets/scenarios.h"

namespace waiter {
namespace surge {

// Two ends that pass a byte to and fro.
struct End {
  int in, out;
  const char* name;
  int64_t quiet_ms, loud_ms;
  bool leads;
};

KEEP_FRAME bool Receive(int fd) {
  char byte;
  return read(fd, &byte, 1) == 1;
}

KEEP_FRAME void Send(int fd) {
  const char byte = 'x';
  Check(write(fd, &byte, 1) == 1, "write");
}

KEEP_FRAME void Quiet(const End& end, Meter* meter) {
  for (const int64_t until = Now() + end.quiet_ms * 1'000'000; Now() < until;) {
    Send(end.out);
    Check(Receive(end.in), "read");
    MeteredSleep(meter, 4'000);
  }
}

KEEP_FRAME void Loud(const End& end) {
  for (const int64_t until = Now() + end.loud_ms * 1'000'000; Now() < until;) {
    Send(end.out);
    Check(Receive(end.in), "read");
  }
}

KEEP_FRAME void* Thread(void* argument) {
  const End& end = *static_cast<End*>(argument);
  Meter meter(end.name);
  // On one CPU, so that every byte is a switch.
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(0, &set);
  (void)sched_setaffinity(0, sizeof(set), &set);
  if (end.leads) {
    Quiet(end, &meter);
    meter.Begin();
    Loud(end);
    meter.End(1);
    Quiet(end, &meter);
    close(end.out);
  } else {
    while (Receive(end.in)) Send(end.out);
    close(end.out);
  }
  return nullptr;
}

}  // namespace surge

void Surge(const Arguments& arguments) {
  int there[2], back[2];
  Check(pipe(there) == 0 && pipe(back) == 0, "pipe");
  const int64_t quiet = arguments.Number(0, 3'000);
  const int64_t loud = arguments.Number(1, 5'000);
  surge::End lead{back[0], there[1], "lead", quiet, loud, true};
  surge::End echo{there[0], back[1], "echo", 0, 0, false};
  const pthread_t one = Start(surge::Thread, &lead);
  const pthread_t two = Start(surge::Thread, &echo);
  Join(one);
  Join(two);
}

}  // namespace waiter
