// Has the probes stand that are wanted, and no others.
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

// Thread-safe. Puts probes in and takes them out on a thread of its own, which begins with this:
// the kernel takes its time for either, and nobody else waits for it.
class Reconciler {
 public:
  // Both must outlive this. `at_once`: the hands put the probes of a set in in one go.
  Reconciler(ProbeHands* hands, const Clock* clock, bool at_once);
  // Takes all probes out.
  ~Reconciler();

  // As ProbePlan has them.
  void Want(const ProbeKey& key, WantedProbes wanted);
  void Unwant(const ProbeKey& key);
  void Forget(int32_t pid);
  void KeepOnly(const std::set<int32_t>& pids);
  void SetPresent(std::span<const ProbeKey> keys, bool present);
  void SetPresence(ProbeSet set, Presence presence);
  void SetOn(bool on);
  void LookAgain(ProbeSet set);

  // Waits until nothing is to be done of the sets from the first to `last`, by priority, but not
  // beyond `deadline_ns` (by the clock). False: beyond.
  bool Await(ProbeSet last, int64_t deadline_ns) const;

  std::optional<ProbeState> StateOf(const ProbeKey& key) const;
  // Under the lock: `visit` must not call this.
  void ForEach(ProbeSet set,
               absl::FunctionRef<void(const ProbeKey& key, const ProbeState& state)> visit) const;
  ProbeCounts Count(ProbeSet set) const;
  // How often all of a set, or everything, was taken out while it was wanted: what was counted
  // between two equal numbers was counted without a break.
  uint64_t breaks(ProbeSet set) const;

 private:
  using Failure = std::optional<std::pair<ProbeKey, std::string>>;

  void Work() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Perform(const ProbeStep& step) ABSL_LOCKS_EXCLUDED(mutex_);
  // After each change of the plan: tells of gates, and wakes the worker.
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
