// Keeps the attached probes equal to the wanted ones.
#ifndef PROFD_DAEMON_PROBES_RECONCILER_H_
#define PROFD_DAEMON_PROBES_RECONCILER_H_

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "daemon/base/clock.h"
#include "daemon/probes/hands.h"
#include "daemon/probes/plan.h"
#include "daemon/probes/wanted.h"

namespace profd {

// Thread-safe. Attaches and detaches probes on its own thread, so that nobody else waits for the
// kernel. The thread is created by the constructor.
class Reconciler {
 public:
  // Both must outlive this. `at_once` as in ProbePlan.
  Reconciler(ProbeHands* hands, const Clock* clock, bool at_once);
  // Detaches all probes.
  ~Reconciler();

  // As in ProbePlan.
  void Want(const ProbeKey& key, WantedProbes wanted);
  void Unwant(const ProbeKey& key);
  void Forget(int32_t pid);
  void KeepOnly(const std::set<int32_t>& pids);
  void SetPresent(std::span<const ProbeKey> keys, bool present);
  void SetPresence(ProbeSet set, Presence presence);
  void SetOn(bool on);
  void LookAgain(ProbeSet set);

  // Waits until no step is due for `last` and the sets of higher priority. False if `deadline_ns`
  // (by the clock) passes before.
  bool Await(ProbeSet last, int64_t deadline_ns) const;

  std::optional<ProbeState> StateOf(const ProbeKey& key) const;
  // Holds the lock: `visit` must not call the reconciler.
  void ForEach(ProbeSet set,
               absl::FunctionRef<void(const ProbeKey& key, const ProbeState& state)> visit) const;
  ProbeCounts Count(ProbeSet set) const;
  // How often a whole set, or everything, was switched. Between two equal numbers no probe was
  // detached by a pause.
  uint64_t breaks(ProbeSet set) const;

 private:
  using Failure = std::optional<std::pair<ProbeKey, std::string>>;

  void Work() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Perform(const ProbeStep& step) ABSL_LOCKS_EXCLUDED(mutex_);
  // Call after each change of the plan. Applies gates and wakes the worker.
  void Changed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ApplyGates() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Log(const ProbeKey& key, const std::string& reason) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  ProbeHands* const hands_;
  const Clock* const clock_;

  mutable absl::Mutex mutex_;
  ProbePlan plan_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool changed_ ABSL_GUARDED_BY(mutex_) = false;  // since the plan was last asked
  std::array<uint64_t, kProbeSets> breaks_ ABSL_GUARDED_BY(mutex_) = {};
  std::set<std::pair<ProbeSet, std::string>> known_ ABSL_GUARDED_BY(mutex_);  // failures, by set
  std::thread worker_;  // last: it uses all of the above
};

}  // namespace profd

#endif  // PROFD_DAEMON_PROBES_RECONCILER_H_
