// What the collector does in rounds: reads the ring, drains, governs, publishes. Ticks are the
// sampler's.
#ifndef PROFD_DAEMON_COLLECT_ENGINE_H_
#define PROFD_DAEMON_COLLECT_ENGINE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "daemon/base/clock.h"
#include "daemon/base/cpu_meter.h"
#include "daemon/base/cpu_use.h"
#include "daemon/collect/drainer.h"
#include "daemon/collect/publisher.h"
#include "daemon/collect/steering.h"
#include "daemon/kernel/kernel.h"
#include "daemon/memory/memory_watch.h"
#include "daemon/source/ring.h"
#include "daemon/source/source_list.h"
#include "daemon/store/store.h"
#include "daemon/target/targets.h"

namespace profd {

// What an engine works with. All must outlive it.
struct EngineParts {
  Kernel* kernel = nullptr;
  const Clock* clock = nullptr;
  Store* store = nullptr;
  MemoryWatch* memory = nullptr;
  CpuUse* cpu_use = nullptr;
};

struct EngineOptions {
  SourceOptions sources;
  std::vector<Selector> selectors;   // empty: every process of our PID namespace but ourselves
  std::vector<std::string> missing;  // for status: features that do not work, and why
  uint64_t seed = 0;
};

// Without a thread or a clock of its own: whoever drives it calls Round when it is time to. Not
// thread-safe.
class Engine {
 public:
  Engine(EngineOptions options, const EngineParts& parts);

  // The sources, to which more may be added before Start.
  SourceList& sources() { return sources_; }
  const Modules& modules() const { return sources_.modules->modules(); }
  // Whose Tick is to be called by a thread of its own; null: there are no ticks.
  Sampler* sampler() { return sources_.waits == nullptr ? nullptr : &sources_.waits->sampler(); }

  // Attaches the sources, marks the targets, and begins to read the files that they run. Errors:
  // NotFound for a PID that does not exist, and what the kernel refuses of that which nothing works
  // without.
  absl::Status Start();
  // Then once, before the first tick and round: waits for the rules and probes of these files, for
  // a limited time and while `go_on` says so, drains for the first time, and turns all sources on.
  // Error: how that drain failed.
  absl::Status AwaitFiles(absl::FunctionRef<bool()> go_on);
  // Whether all of these rules and probes were there when AwaitFiles returned.
  bool knew_files() const { return knew_files_; }

  // When the next round is due, monotonic.
  int64_t next_ns() const;
  // Does what is due. `asked`: a drain is. Returns true when one was done, with how it ended in
  // `drained`.
  bool Round(bool asked, absl::Status* drained);
  // Takes everything out of the targets' path and stops, or goes on. Right after a drain, so that
  // what comes from here on is a delta of its own.
  void SetPaused(bool paused);
  bool paused() const { return paused_; }

  // All that happened until then is in the store, monotonic.
  int64_t reached_ns() const { return drainer_.reached_ns(); }
  // Never changed once it was given.
  std::shared_ptr<const CollectorState> state() const { return state_; }

 private:
  void AttachSources();
  int64_t PollInterval() const;
  void StepSources();
  void Publish();
  // There is so much to take that it cannot wait for the next drain.
  bool IsBehind() const;
  enum class Judge { kNot, kWhenDue, kAtOnce };
  // One drain, and whether the governor judges by it.
  absl::Status Drain(Judge judge);

  const EngineOptions options_;
  const EngineParts parts_;
  CpuMeter cpu_;
  Ring ring_;
  Targets targets_;
  const SourceContext context_;
  SourceList sources_;
  // Sources that could not be attached: others may still ask them.
  std::vector<std::unique_ptr<Source>> lost_;
  Steering steering_;
  Publisher publisher_;
  Drainer drainer_;
  bool started_ = false;
  bool knew_files_ = false;
  bool paused_ = false;
  int64_t next_drain_ns_ = 0;
  int64_t lively_until_ns_ = 0;
  std::shared_ptr<const CollectorState> state_ = std::make_shared<CollectorState>();
};

}  // namespace profd

#endif  // PROFD_DAEMON_COLLECT_ENGINE_H_
