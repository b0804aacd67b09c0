// What limits the throughput of a window, and by how much at most it would grow without it. The
// model is that of docs/sampling/analysis.md ("Bottlenecks").
#ifndef PROFD_CLIENT_ANALYSIS_BOTTLENECKS_H_
#define PROFD_CLIENT_ANALYSIS_BOTTLENECKS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/analysis/activity.h"
#include "client/analysis/wait_graph.h"

namespace profctl {

// An upper bound of a factor of throughput; none: nothing that was seen bounds it.
struct Gain {
  std::optional<double> at_most;
  // 95 % interval of the bound. The lower end also holds if all waits whose waker nobody saw are
  // work that remains.
  std::optional<double> low, high;
  std::optional<uint32_t> next;  // the group that is the limit then
};

// What a group of a knot does, or whom it waits for, in one place.
struct Bottleneck {
  State what;  // without threads; of all stacks of this function
  Role role = Role::kWork;
  uint32_t group = 0;
  SampledTime time;      // of its own threads that counts
  double others_ns = 0;  // waits of others that come down to it
  Gain gain;             // without it
};

struct KnotReport {
  Knot groups;
  std::vector<uint32_t> waiters;  // groups outside that wait for them, directly or not
  double time_ns = 0;             // what they do, and waits that come down to it
  // The busiest of its groups, and which share of its time it works or is waited for.
  uint32_t busiest = 0;
  double busy = 0, busy_error = 0;
  std::vector<Bottleneck> bottlenecks;  // the largest gain first
  size_t more = 0;                      // that are not in `bottlenecks`
};

struct BottleneckOptions {
  std::vector<uint32_t> groups;  // where to look: these, and all that they wait for; empty: all
  size_t most = 5;               // of each knot
};

struct BottleneckReport {
  WaitGraph graph;
  std::vector<KnotReport> knots;        // that with the most time first
  uint64_t ticks = 0;                   // samples of everything that counts
  double waits_ns = 0, unknown_ns = 0;  // of the groups that were looked at
};

// Pure. The first `groups` of `activity` count.
BottleneckReport FindBottlenecks(const Activity& activity, size_t groups,
                                 const BottleneckOptions& options);

}  // namespace profctl

#endif  // PROFD_CLIENT_ANALYSIS_BOTTLENECKS_H_
