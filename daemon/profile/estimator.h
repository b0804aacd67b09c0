// Scales what the tick saw to what the ledger knows. The formulas are those of docs/sampling.md.
#ifndef PROFD_DAEMON_PROFILE_ESTIMATOR_H_
#define PROFD_DAEMON_PROFILE_ESTIMATOR_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "daemon/profile/profile.h"

namespace profd {

// Two-sided 95 % of the normal distribution.
inline constexpr double kNormal95 = 1.959963984540054;

struct Interval {
  double low = 0;
  double high = 1;
};

// Wilson's 95 % score interval for a share `p` seen in `n` ticks, within [0, 1]; all of [0, 1]
// when n is not positive.
Interval WilsonInterval(double p, double n);

// Standard error of a share `p` of `n` ticks: the binomial one, or Wilson's half width divided by
// the normal quantile where that is larger. The latter is not zero at p = 0 and p = 1.
double ShareError(double p, double n);

// What the numbers of a window stand on.
struct EstimateBasis {
  // A layer that measures time exactly was on for a part of the window. Without one there are only
  // weights: times are then the weights themselves.
  bool ledger = true;
  // Ticks in the window; needed for errors without a ledger only.
  int64_t ticks = 0;
};

struct EstimatedSample {
  SampleKey key;       // stack 0: [unsampled], what no tick or event saw
  int64_t amount = 0;  // ns or bytes, by the kind
  int64_t error = 0;   // standard error of `amount`
  int64_t weight = 0;
  int64_t ticks = 0;
  int64_t growth = 0;  // of levels: in the window
};

struct EstimatedThread {
  // As stored, but blocked time of unknown reason (unattributed_ns) is divided over off_ns and set
  // to zero, so that wall = on-CPU + sum of off_ns wherever it did before. A value may be a little
  // negative at the edge of a window; it is left so, for sums over windows to stay exact.
  LedgerDelta ledger;
  int64_t estimated_ns = 0;                   // what was divided
  std::array<int64_t, kReasonCount> ticks{};  // that saw the thread in this state
  // The times of a (thread, reason) sum exactly to ledger.off_ns, or are zero where that is not
  // positive.
  std::vector<EstimatedSample> samples;
};

// `samples` are all waits of one thread and window, whatever the answer will show of them. Pure.
EstimatedThread EstimateThread(ThreadId thread, const LedgerDelta& ledger,
                               std::span<const Sample> samples, const EstimateBasis& basis);

// Divides the time that a thread was on a CPU among the stacks of its samples, all of the kind
// kCpu. The amounts sum to `ledger.on_cpu_ns`, or are zero where that is not positive.
std::vector<EstimatedSample> EstimateRunning(ThreadId thread, const LedgerDelta& ledger,
                                             std::span<const Sample> samples,
                                             const EstimateBasis& basis);

// Divides the context switches of a thread among the stacks of its samples, all of the kind
// kSwitch, each with the number of switches that it stands for as its argument. Of each reason the
// amounts sum to the ledger's number; where it did not see all, the rest of the kernel's own number
// is divided, too. One sample a stack and reason, without the argument. No error where all were
// counted.
std::vector<EstimatedSample> EstimateSwitches(ThreadId thread, const LedgerDelta& ledger,
                                              std::span<const Sample> samples);

// All that a thread did: what it waited for, and what it ran. The amounts sum to the wall time of
// the ledger, where there is one.
std::vector<EstimatedSample> JoinStates(const EstimatedThread& waits,
                                        std::vector<EstimatedSample> running);

// Divides what a thread allocated or freed, by its allocator's own count in `heap`, among the
// stacks of its events, all of one kind: large ones get what they weigh, the rest is shared by the
// others' weights. The amounts sum to `heap.bytes`, or are zero where that is not positive. One
// sample a stack, with the key of events that are not large. Of the process `unsampled` bytes
// belong to stacks that nobody saw: any of them may be any stack's.
std::vector<EstimatedSample> EstimateHeap(ThreadId thread, Kind kind, const HeapDelta& heap,
                                          std::span<const Sample> samples, int64_t unsampled = 0);
// Bytes of a thread of which no event was seen: what EstimateHeap tells as [unsampled].
int64_t UnsampledHeap(const HeapDelta& heap, std::span<const Sample> samples);

// What there is at an instant, of samples each of which already stands for what it was drawn from:
// nothing is scaled. The error is that of a Poisson sample; of objects by their mean size. Of the
// process it is known that `unsampled` bytes belong to stacks which nobody saw: any of them may be
// any stack's.
std::vector<EstimatedSample> EstimateLevels(std::span<const Sample> samples, int64_t unsampled = 0);

// What mapping calls asked for. Where all were counted that is exact; where one of so many was, the
// error is that of a binomial sample of calls of their mean size.
std::vector<EstimatedSample> EstimateMappings(std::span<const Sample> samples);
// Disk requests and file syncs, all of which were counted: one for each stack and device or file
// and operation, with latencies left out.
std::vector<EstimatedSample> SumRequests(std::span<const Sample> samples);
// What bursts of tracing stand for, of one thread and kind: samples that are scaled already, of
// `bursts` bursts. The error is that of a sample of so many, widened where they are few, and of the
// time that the probes took.
std::vector<EstimatedSample> EstimateBursts(std::span<const Sample> samples, const HeapDelta& heap,
                                            int64_t bursts);

// The two-sided 95 % quantile of Student's distribution, by that of the normal one. 1 for no
// degrees of freedom.
double StudentWidening(int64_t degrees);

}  // namespace profd

#endif  // PROFD_DAEMON_PROFILE_ESTIMATOR_H_
