// The collector: the thread that drives the engine, and those who ask it for something.
#ifndef PROFD_DAEMON_COLLECT_COLLECTOR_H_
#define PROFD_DAEMON_COLLECT_COLLECTOR_H_

#include <cstdint>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "daemon/base/fd.h"
#include "daemon/collect/control.h"
#include "daemon/collect/engine.h"

namespace profd {

class Collector final : public CollectorControl {
 public:
  // Loads the kernel side, starts the engine and its thread. `store`, `memory` and `cpu_use` must
  // outlive this. Errors: NotFound for a PID that does not exist, and what the kernel refuses.
  static absl::StatusOr<std::unique_ptr<Collector>> Create(EngineOptions options, Store* store,
                                                           MemoryWatch* memory, CpuUse* cpu_use);
  ~Collector() override;

  absl::Status DrainNow() override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status SetPaused(bool paused) override ABSL_LOCKS_EXCLUDED(mutex_);
  CollectorState State() const override ABSL_LOCKS_EXCLUDED(mutex_);
  const Modules& modules() const { return engine_->modules(); }

 private:
  Collector() = default;
  void Run();
  // Waits for the next round, or until somebody asks for something.
  void Wait();
  // Wakes the thread and waits until it has done what was asked for by then.
  absl::Status Await(uint64_t asked) ABSL_LOCKS_EXCLUDED(mutex_);
  void Wake();

  std::unique_ptr<Kernel> kernel_;
  std::unique_ptr<Engine> engine_;
  UniqueFd wake_;  // eventfd: a drain is asked for, or stop

  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t drains_asked_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t drains_done_ ABSL_GUARDED_BY(mutex_) = 0;
  bool pause_wanted_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status drain_status_ ABSL_GUARDED_BY(mutex_);
  CollectorState state_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace profd

#endif  // PROFD_DAEMON_COLLECT_COLLECTOR_H_
