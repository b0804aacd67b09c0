// Streams an answer from a worker's thread.
#ifndef PROFD_DAEMON_SERVICE_PROFILE_STREAM_H_
#define PROFD_DAEMON_SERVICE_PROFILE_STREAM_H_

#include <grpcpp/grpcpp.h>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "profd/v1/profiler.grpc.pb.h"

namespace profd {

// gRPC writes without blocking; a worker of ours writes one part after another and waits for each.
// gRPC owns it from the start of the call, and deletes it some time after Finish.
class ProfileStream final : public grpc::ServerWriteReactor<v1::Profile> {
 public:
  // Sends a part, which may go when this returns. False when the client is gone or the call was
  // cancelled: then nothing more can be sent. For one thread, before Finish.
  bool Send(const v1::Profile& part) ABSL_LOCKS_EXCLUDED(mutex_);

  void OnWriteDone(bool ok) override ABSL_LOCKS_EXCLUDED(mutex_);
  void OnDone() override { delete this; }

 private:
  absl::Mutex mutex_;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ok_ ABSL_GUARDED_BY(mutex_) = true;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_PROFILE_STREAM_H_
