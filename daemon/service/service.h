// The gRPC service Profiler.
#ifndef PROFD_DAEMON_SERVICE_SERVICE_H_
#define PROFD_DAEMON_SERVICE_SERVICE_H_

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "daemon/base/cpu_use.h"
#include "daemon/collect/control.h"
#include "daemon/memory/memory_watch.h"
#include "daemon/service/answer.h"
#include "daemon/service/frame_names.h"
#include "daemon/service/request.h"
#include "daemon/service/search_allowance.h"
#include "daemon/service/sources.h"
#include "daemon/service/worker_pool.h"
#include "daemon/store/store.h"
#include "profd/v1/profiler.grpc.pb.h"

namespace profd {

// Bounds the fetches and the like that run at once. A client that does not read its answer loses
// its place when another needs it. Thread-safe.
class FetchSlots {
 public:
  FetchSlots(size_t limit, int64_t patience_ns) : limit_(limit), patience_ns_(patience_ns) {}

  // False when all are taken; then the oldest is cancelled if it has run out of patience.
  bool Enter(grpc::ServerContextBase* context, int64_t now_ns) ABSL_LOCKS_EXCLUDED(mutex_);
  void Leave(grpc::ServerContextBase* context) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Running {
    grpc::ServerContextBase* context;
    int64_t since_ns;
  };
  const size_t limit_;
  const int64_t patience_ns_;
  absl::Mutex mutex_;
  std::vector<Running> running_ ABSL_GUARDED_BY(mutex_);  // oldest first
};

// Calls arrive on gRPC's own threads and are answered on ours. Both exist from the start: a kernel
// that refuses threads later stops no answer.
class ProfilerService final : public v1::Profiler::CallbackService {
 public:
  explicit ProfilerService(ServiceSources sources);
  // Reads ahead what the first answer needs. Takes some 0.1 s.
  void Prepare() { names_.Prepare(); }

  grpc::ServerWriteReactor<v1::Profile>* Fetch(grpc::CallbackServerContext* context,
                                               const v1::FetchRequest* request) override;
  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const v1::GetStatusRequest* request,
                                      v1::GetStatusResponse* response) override;
  grpc::ServerUnaryReactor* GetMemory(grpc::CallbackServerContext* context,
                                      const v1::GetMemoryRequest* request,
                                      v1::GetMemoryResponse* response) override;
  grpc::ServerWriteReactor<v1::Profile>* GetStacks(grpc::CallbackServerContext* context,
                                                   const v1::GetStacksRequest* request) override;

 private:
  // What a client asked for, as it wrote it; for errors.
  struct Asked {
    const google::protobuf::RepeatedPtrField<std::string>& targets;
    std::string thread = {};  // empty: any number of threads is an answer, even none
  };

  // Answers on a thread of the pool if there is a place among the fetches, and finishes the call
  // either way, with what `answer` returns or why it was not asked.
  void AnswerOnPool(grpc::CallbackServerContext* context,
                    const std::function<absl::Status()>& answer,
                    const std::function<void(const grpc::Status&)>& finish);
  absl::Status Answer(const v1::FetchRequest& request, const SendPart& send);
  // `window`: which of the request's windows `scope` is.
  absl::Status AnswerWindow(const FetchPlan& plan, const RequestScope& scope, uint32_t window,
                            const Asked& asked, int64_t wall_offset, const SendPart& send);
  // Has the store reach up to there, or as far as it gets in time.
  absl::Status Drain(int64_t window_end_ns) const;
  absl::Status AnswerStacks(const v1::GetStacksRequest& request, const SendPart& send);
  // A stream whose parts `answer` sends.
  grpc::ServerWriteReactor<v1::Profile>* Stream(
      grpc::CallbackServerContext* context,
      const std::function<absl::Status(const SendPart&)>& answer);
  absl::Status AnswerMemory(const v1::GetMemoryRequest& request, v1::GetMemoryResponse* response);
  // The window of the threads in `scope`; with `levels`, what there was at its end, too. NotFound
  // when no process or no thread matches what was `asked` for.
  absl::StatusOr<MergedProfile> Merge(const RequestScope& scope, const Asked& asked,
                                      bool levels) const;
  std::vector<ProcessHistory> Histories(const RequestScope& scope, size_t max_points) const;
  // Has the memory of the processes in `scope` read now.
  void RefreshMemory(const RequestScope& scope) const;

  const ServiceSources sources_;
  const HostInfo host_;
  FrameNames names_;
  SearchAllowance searches_;
  FetchSlots slots_;
  WorkerPool status_pool_;  // status must not wait for a fetch
  WorkerPool pool_;         // last: their jobs use all of the above
};

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_SERVICE_H_
