// Divides waits among those who ended them. The formulas are those of docs/sampling.md.
#ifndef PROFD_DAEMON_PROFILE_WAKER_ESTIMATE_H_
#define PROFD_DAEMON_PROFILE_WAKER_ESTIMATE_H_

#include <span>
#include <vector>

#include "daemon/profile/estimator.h"
#include "daemon/profile/profile.h"

namespace profd {

// In place of a waker's stack; the ids of stacks are odd. Not known, and: a thread on the run queue
// waits for nobody.
inline constexpr StackId kWakerUnknown{0};
inline constexpr StackId kNoWaker{2};

// The waiter's stack of a sample of Kind::kWaker; its own is the waker's.
inline StackId WaiterOf(const SampleKey& key) { return StackId{key.argument}; }

// `waits`: of one thread, as estimated. `samples`: all of it, those of Kind::kWaker are used. The
// times of a (reason, waiter's stack) sum to those of its waits. Pure.
std::vector<EstimatedSample> EstimateWakers(const EstimatedThread& waits,
                                            std::span<const Sample> samples);

}  // namespace profd

#endif  // PROFD_DAEMON_PROFILE_WAKER_ESTIMATE_H_
