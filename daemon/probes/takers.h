// Threads that take probes out side by side.
#ifndef PROFD_DAEMON_PROBES_TAKERS_H_
#define PROFD_DAEMON_PROBES_TAKERS_H_

#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "daemon/kernel/probe.h"

namespace profd {

// The kernel waits for all running programs at each link that goes: side by side it takes as long
// as one. For one thread. All threads begin with this: where the kernel grants fewer the caller
// does their part.
class Takers {
 public:
  explicit Takers(size_t threads);
  ~Takers();
  Takers(const Takers&) = delete;
  Takers& operator=(const Takers&) = delete;

  // Returns when all are out.
  void Remove(std::vector<Probe> probes);

 private:
  void Work();
  // Runs `task` for each number below `count`.
  void Run(size_t count, std::function<void(size_t)> task);
  // The next of them, until there is none.
  void Help() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<void(size_t)> task_ ABSL_GUARDED_BY(mutex_);
  size_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t done_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::thread> threads_;  // last: they use all of the above
};

}  // namespace profd

#endif  // PROFD_DAEMON_PROBES_TAKERS_H_
