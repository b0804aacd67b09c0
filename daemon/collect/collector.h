// The collector: the threads that drive the engine and its sampler, and those who ask it for
// something.
#ifndef PROFD_DAEMON_COLLECT_COLLECTOR_H_
#define PROFD_DAEMON_COLLECT_COLLECTOR_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "daemon/base/code_range.h"
#include "daemon/base/wakeup.h"
#include "daemon/collect/control.h"
#include "daemon/collect/drain_requests.h"
#include "daemon/collect/engine.h"

namespace profd {

class Collector final : public CollectorControl {
 public:
  // Loads the kernel side, starts the engine and all threads that it ever needs. The files that the
  // targets run are read after that. `store`, `memory` and `cpu_use` must outlive this. Errors:
  // NotFound for a PID that does not exist, and what the kernel refuses.
  static absl::StatusOr<std::unique_ptr<Collector>> Create(EngineOptions options, Store* store,
                                                           MemoryWatch* memory, CpuUse* cpu_use);
  ~Collector() override;

  // Whether ticks have begun. They wait for the unwind rules and probes of what the targets run.
  bool has_begun() const { return begun_.HasBeenNotified(); }
  // Whether all of these were there then. Once ticks have begun.
  bool knew_files() const { return engine_->knew_files(); }
  // Ends that wait.
  void BeginNow() { hurried_ = true; }

  absl::Status DrainTo(int64_t instant_ns, int64_t deadline_ns) override;
  absl::Status SetPaused(bool paused) override ABSL_LOCKS_EXCLUDED(mutex_);
  CollectorState State() const override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<Look> TakeLook(absl::FunctionRef<bool(const ThreadInfo&)> keep) override;
  const Modules& modules() const { return engine_->modules(); }
  std::vector<CodeRange> OwnCode() const { return kernel_->OwnCode(); }

 private:
  Collector() = default;
  // The drainer's thread and the sampler's, from start to end.
  void Drain();
  void Sample(Sampler* sampler);
  void Publish() ABSL_LOCKS_EXCLUDED(mutex_);

  std::unique_ptr<Kernel> kernel_;
  std::unique_ptr<Engine> engine_;  // the drainer's thread alone, but for its sampler and modules
  Wakeup wakeup_;                   // of the drainer's thread
  DrainRequests requests_;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> pause_wanted_ = false;
  std::atomic<bool> hurried_ = false;
  absl::Notification begun_;
  mutable absl::Mutex mutex_;
  std::shared_ptr<const CollectorState> state_ ABSL_GUARDED_BY(mutex_);
  // Last: they use all of the above.
  std::thread drainer_;
  std::thread sampler_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_COLLECT_COLLECTOR_H_
