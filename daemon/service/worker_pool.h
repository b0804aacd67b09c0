// A fixed number of threads that answer requests.
#ifndef PROFD_DAEMON_SERVICE_WORKER_POOL_H_
#define PROFD_DAEMON_SERVICE_WORKER_POOL_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace profd {

// All threads start with the pool, so a kernel that refuses threads later cannot stop answers.
// Thread-safe.
class WorkerPool {
 public:
  // `stopping`: the pool is being destroyed, and the job should only refuse its request.
  using Job = std::function<void(bool stopping)>;

  // `threads` jobs run at a time, and up to `queue` wait. Throws std::system_error when the kernel
  // refuses a thread.
  WorkerPool(size_t threads, size_t queue);
  // Waits for the jobs that run. Those that wait run with `stopping` set.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // False when the queue is full or the pool is being destroyed: then `job` will not run.
  bool Add(Job job) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Work() ABSL_LOCKS_EXCLUDED(mutex_);
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

  const size_t queue_limit_;
  absl::Mutex mutex_;
  std::deque<Job> jobs_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // last: they use all of the above
};

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_WORKER_POOL_H_
