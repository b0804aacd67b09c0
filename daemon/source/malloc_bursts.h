// Bursts of full tracing of glibc's malloc: when, and in which processes.
#ifndef PROFD_DAEMON_SOURCE_MALLOC_BURSTS_H_
#define PROFD_DAEMON_SOURCE_MALLOC_BURSTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "daemon/kernel/kernel.h"
#include "daemon/probes/allocator_state.h"
#include "daemon/probes/malloc_burst.h"
#include "daemon/probes/trap.h"
#include "daemon/source/burst_results.h"
#include "daemon/source/tick_schedule.h"
#include "daemon/target/modules.h"

namespace profd {

// One burst in each interval; without an interval none.
struct BurstPlan {
  int64_t length_ns = 0;
  int64_t interval_ns = 0;
  friend bool operator==(const BurstPlan&, const BurstPlan&) = default;
};

// Thread-safe. Waits for the instants of bursts, and for the probes, on a thread of its own.
class MallocBursts {
 public:
  // A process and the module in it that holds glibc's malloc.
  using Place = std::pair<int32_t, WatchId>;

  // `probes` is told before this of processes that come and go. All must outlive this.
  MallocBursts(ProbeKernel* kernel, const Modules* modules, MallocBurstProbes* probes,
               BurstPlan plan, uint64_t seed);
  ~MallocBursts();

  // A process of a target maps a module that holds glibc's malloc. May repeat.
  void OnMapped(int32_t pid, WatchId module);
  // A process became another program: it maps what it is told of from now on.
  void OnExec(int32_t pid);
  // The processes of all targets, as they are now.
  void KeepOnly(const std::set<int32_t>& pids);
  void SetPlan(BurstPlan plan);
  // Without bursts until it is on again.
  void SetOn(bool on);

  // As BurstResults has it.
  std::vector<BurstResult> TakeSlice();
  bool ArePlenty() const;

  // There are processes to trace, and a plan to do it.
  bool watching() const;
  BurstPlan plan() const;
  Traps traps() const;      // as they were before the first burst
  uint64_t bursts() const;  // since start
  // Without what went through them.
  std::vector<AllocatorState> States() const;

 private:
  // The next burst.
  struct Burst {
    int64_t begin_ns = 0;
    int64_t length_ns = 0;
    int64_t span_ns = 0;
    int64_t skipped_ns = 0;
    double process_weight = 1;
    std::vector<Place> places;
  };

  void Work() ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits for the time to put probes in. Nothing: to stop.
  std::optional<Burst> Next() ABSL_LOCKS_EXCLUDED(mutex_);
  Burst Choose() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // False if it told nothing.
  bool Run(const Burst& burst) ABSL_LOCKS_EXCLUDED(mutex_);
  bool Runs() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(absl::FunctionRef<bool(int32_t pid)> gone) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  ProbeKernel* const kernel_;
  const Modules* const modules_;
  MallocBurstProbes* const probes_;

  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool changed_ ABSL_GUARDED_BY(mutex_) = false;  // there may be another instant to wait for
  bool on_ ABSL_GUARDED_BY(mutex_) = true;
  BurstPlan plan_ ABSL_GUARDED_BY(mutex_);
  TickSchedule schedule_ ABSL_GUARDED_BY(mutex_);
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_);
  Traps traps_ ABSL_GUARDED_BY(mutex_);
  int64_t lead_ns_ ABSL_GUARDED_BY(mutex_);         // that putting the probes in takes
  int64_t skipped_ns_ ABSL_GUARDED_BY(mutex_) = 0;  // since the last burst, without one of its own
  uint64_t bursts_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<Place> places_ ABSL_GUARDED_BY(mutex_);
  BurstResults results_ ABSL_GUARDED_BY(mutex_);
  bool met_ = true;     // a call in the last burst: the traps are worth measuring; the worker's
  std::thread worker_;  // last: it uses all of the above
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_MALLOC_BURSTS_H_
