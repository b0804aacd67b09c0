// Who waits for a drain.
#ifndef PROFD_DAEMON_COLLECT_DRAIN_REQUESTS_H_
#define PROFD_DAEMON_COLLECT_DRAIN_REQUESTS_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "daemon/base/status.h"

namespace profd {

// Thread-safe. All who ask before a drain begins share it, and so do those who ask while it is in
// progress for an instant that it reaches.
class DrainRequests {
 public:
  // For those who ask. Waits until a drain reaches up to `instant_ns`. `wake` has the drainer look
  // whether one is wanted. Errors as of CollectorControl::DrainTo.
  absl::Status Await(int64_t instant_ns, int64_t deadline_ns, absl::FunctionRef<void()> wake)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The same for a drain that begins after the call, whatever the last one reached.
  absl::Status AwaitNext(int64_t deadline_ns, absl::FunctionRef<void()> wake)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // For the drainer. Whether one is wanted that begins now; Done answers those who asked before.
  bool IsWanted() ABSL_LOCKS_EXCLUDED(mutex_);
  // A drain reached up to there. Whoever asked for it gets `status`.
  void Done(int64_t reached_ns, absl::Status status) ABSL_LOCKS_EXCLUDED(mutex_);
  // There are no more: whoever waits is told so.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // One who waits: for an instant, or for a drain of this number.
  struct Wanted {
    int64_t instant_ns = INT64_MIN;
    uint64_t drain = 0;
  };
  absl::Status AwaitWanted(const Wanted& wanted, int64_t deadline_ns,
                           absl::FunctionRef<void()> wake) ABSL_LOCKS_EXCLUDED(mutex_);
  bool IsMet(const Wanted& wanted) const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return reached_ns_ >= wanted.instant_ns && done_ >= wanted.drain;
  }

  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Wanted most_ ABSL_GUARDED_BY(mutex_);         // of all who asked
  uint64_t begun_ ABSL_GUARDED_BY(mutex_) = 0;  // drains
  uint64_t done_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t reached_ns_ ABSL_GUARDED_BY(mutex_) = INT64_MIN;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);  // of the last one
};

}  // namespace profd

#endif  // PROFD_DAEMON_COLLECT_DRAIN_REQUESTS_H_
