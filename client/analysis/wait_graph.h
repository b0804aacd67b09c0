// The wait-for graph of a window: which groups of threads wait for which, what each of them does
// itself, and the knots: groups that wait for nobody else. An estimate; its model and its formulas
// are those of docs/sampling/analysis.md ("Bottlenecks").
#ifndef PROFD_CLIENT_ANALYSIS_WAIT_GRAPH_H_
#define PROFD_CLIENT_ANALYSIS_WAIT_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "client/analysis/activity.h"

namespace profctl {

// An estimated time of threads, ns, with the variance of its error.
struct SampledTime {
  double ns = 0;
  double variance = 0;

  void Add(double time_ns, double more_variance) {
    ns += time_ns;
    variance += more_variance;
  }
};

// What a state is to the throughput.
enum class Role {
  kWork,     // on a CPU, or waits for something that is not a thread: a disk, the network, a
             // process that is not watched
  kTimer,    // waits that a timer ends: work of a simulated or a slow kind, or no work at all
  kQueue,    // waits for a CPU
  kThread,   // waits for threads of a group
  kUnknown,  // waits whose waker nobody saw
  kIdle,     // waits for work
};
Role RoleOf(const State& state);

struct WaitEdge {
  SampledTime wait;       // by the waiter's samples
  double flow_ns = 0;     // with the waits of others that go on to it
  bool counts = false;    // for the knots
  double per_thread = 0;  // which share of the window one of the waiting threads waits, 0 to 1
};

struct WaitNode {
  double wall_ns = 0;  // of all threads of the group: what it could work at most
  SampledTime work, timer, queue, unknown;
  // The share of the timers' waits that somebody waits for, 0 to 1, with its variance.
  double awaited = 0, awaited_variance = 0;
  double ended_ns = 0;  // waits of all threads that come down to what this group does itself
  std::map<uint32_t, WaitEdge> waits_for;  // by group; itself, too

  // What it must do for the throughput that it has: work and awaited timers.
  SampledTime Demand() const;
};

struct WaitGraph {
  std::vector<WaitNode> nodes;  // by group
  double waits_ns = 0;          // for threads of groups; the sum of ended_ns and unresolved_ns
  double unresolved_ns = 0;     // go in circles among threads that do nothing
  SampledTime unknown;          // waits whose waker nobody saw
};

// Groups that wait for each other and for no other group.
using Knot = std::vector<uint32_t>;  // ascending

// Of the first `groups` of `activity`. Pure.
WaitGraph BuildWaitGraph(const Activity& activity, size_t groups);

// The knots; each group is in one at most.
std::vector<Knot> FindKnots(const WaitGraph& graph);

// Groups from which edges that count lead to one of `targets`, and these themselves; by group.
std::vector<bool> GroupsThatReach(const WaitGraph& graph, const std::vector<uint32_t>& targets);
// Groups to which they lead from one of `sources`, and these themselves.
std::vector<bool> GroupsReachedFrom(const WaitGraph& graph, const std::vector<uint32_t>& sources);

}  // namespace profctl

#endif  // PROFD_CLIENT_ANALYSIS_WAIT_GRAPH_H_
