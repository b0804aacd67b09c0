// A thread's own account of its waits, to hold against what profd says of it.
#ifndef PROFD_TESTS_TARGETS_METER_H_
#define PROFD_TESTS_TARGETS_METER_H_

#include <pthread.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/targets/keep_frame.h"

namespace waiter {

// CLOCK_MONOTONIC, ns.
int64_t Now();
// CPU time of the calling thread, ns.
int64_t ThreadCpu();
// How long it could run but had no CPU, by the kernel's account, ns.
int64_t ThreadDelay();
// Computes until it has used so much more CPU time.
void UseCpu(int64_t ns);

// Lives on the stack of the thread it measures, for as long as that thread runs its body. Its
// account is part of the report once it is destroyed.
class Meter {
 public:
  // Names the thread, too (15 characters at most).
  explicit Meter(const char* name);
  ~Meter();
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;

  // From now on the report has, by path, how long the thread could run but had no CPU during its
  // waits, by the kernel's account.
  void CountDelay();

  // Around one wait. `path` tells apart the places where a thread waits.
  void Begin();
  void End(int path = 0);

  // Puts the account as it stands into the report, for a thread that will never get further.
  void Publish();

 private:
  struct Interval {
    int64_t begin, end;
    int path;
  };
  std::string name_;
  int tid_;
  int64_t begin_, cpu_begin_;
  int64_t wait_begin_ = 0, wait_cpu_begin_ = 0;
  int64_t wait_wall_ = 0, wait_cpu_ = 0;
  int64_t sleeps_ = 0, sleeps_begin_ = 0;  // during its waits
  std::vector<Interval> waits_;
  int schedstat_ = -1;  // of the thread
  int64_t delay_begin_ = 0;
  std::vector<int64_t> delays_;  // ns, by path
  bool published_ = false;
};

// Starts a thread or aborts.
pthread_t Start(void* (*body)(void*), void* argument = nullptr);
void Join(pthread_t thread);

// Writes everything measured so far as one JSON line on stdout, with one write().
void PrintReport();

// Ends the program with a message when a call that must succeed did not.
void Check(bool ok, const char* what);

// Keeps the calling thread, and all that it starts from here on, on the first CPU that it may use.
void StayOnOneCpu();

// Sleeps `us` microseconds in one clock_nanosleep, metered as `path`.
void MeteredSleep(Meter* meter, int64_t us, int path = 0);

}  // namespace waiter

#endif  // PROFD_TESTS_TARGETS_METER_H_
