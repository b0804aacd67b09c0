// Threads that detach probes in parallel.
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

// The kernel waits for running programs at each link that is detached. In parallel these waits
// overlap. For use by one thread. All threads are created by the constructor; if the kernel refuses
// some, the rest does their work.
class Takers {
 public:
  explicit Takers(size_t threads);
  ~Takers();
  Takers(const Takers&) = delete;
  Takers& operator=(const Takers&) = delete;

  // Returns when all are detached.
  void Remove(std::vector<Probe> probes);

 private:
  void Work();
  // Runs `task` for each number below `count`.
  void Run(size_t count, std::function<void(size_t)> task);
  // Runs the task until no number is left.
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
