// Lets a thread sleep until an instant, or until another one wakes it.
#ifndef PROFD_DAEMON_BASE_WAKEUP_H_
#define PROFD_DAEMON_BASE_WAKEUP_H_

#include <semaphore.h>

#include <cerrno>
#include <cstdint>
#include <ctime>

namespace profd {

// For one thread that sleeps, and any that wake it.
class Wakeup {
 public:
  Wakeup() { sem_init(&semaphore_, 0, 0); }
  ~Wakeup() { sem_destroy(&semaphore_); }
  Wakeup(const Wakeup&) = delete;
  Wakeup& operator=(const Wakeup&) = delete;

  // Ends the present SleepUntil, or else the next one.
  void Wake() {
    int pending = 0;
    if (sem_getvalue(&semaphore_, &pending) == 0 && pending > 0) return;
    sem_post(&semaphore_);
  }
  // CLOCK_MONOTONIC; INT64_MAX: for as long as nobody wakes.
  void SleepUntil(int64_t monotonic_ns) {
    constexpr int64_t kSecond = 1'000'000'000;
    const timespec until{.tv_sec = monotonic_ns / kSecond, .tv_nsec = monotonic_ns % kSecond};
    while (sem_clockwait(&semaphore_, CLOCK_MONOTONIC, &until) != 0 && errno == EINTR) {
    }
  }

 private:
  sem_t semaphore_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_WAKEUP_H_
