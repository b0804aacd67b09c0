#include "client/analysis/wait_graph.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace profctl {
namespace {

// Waits for a group count if they take this share of the waiter's time without idle waits, and if
// they are above their error by this factor.
constexpr double kLeastShare = 0.05;
constexpr double kLeastErrors = 2;
// Waits go on from group to group so often at most, or until less than this share is left.
constexpr int kMostRounds = 10'000;
constexpr double kLeft = 1e-9;

// The kernel itself does what these wait for.
bool IsForStorage(Reason reason) {
  return reason == profd::v1::REASON_FAULT || reason == profd::v1::REASON_FSYNC ||
         reason == profd::v1::REASON_DISK || reason == profd::v1::REASON_RECLAIM;
}

void AddState(const State& state, WaitNode& node) {
  switch (RoleOf(state)) {
    case Role::kWork:
      node.work.Add(state.time_ns, state.variance);
      break;
    case Role::kTimer:
      node.timer.Add(state.time_ns, state.variance);
      break;
    case Role::kQueue:
      node.queue.Add(state.time_ns, state.variance);
      break;
    case Role::kThread:
      node.waits_for[state.waker.group].wait.Add(state.time_ns, state.variance);
      break;
    case Role::kUnknown:
      node.unknown.Add(state.time_ns, state.variance);
      break;
    case Role::kIdle:
      break;
  }
}

// How long one of the threads of a group that wait for another one waits.
void SetPerThread(const Activity& activity, const ThreadGroup& group, WaitNode& node) {
  std::map<uint32_t, std::set<uint32_t>> waiters;
  for (const State& state : group.states) {
    if (RoleOf(state) != Role::kThread) continue;
    waiters[state.waker.group].insert(state.threads.begin(), state.threads.end());
  }
  for (const auto& [to, threads] : waiters) {
    double wall_ns = 0;
    for (const uint32_t thread : threads) wall_ns += static_cast<double>(activity.wall_ns[thread]);
    WaitEdge& edge = node.waits_for[to];
    if (wall_ns > 0) edge.per_thread = std::min(1.0, edge.wait.ns / wall_ns);
  }
}

double WaitsOf(const WaitNode& node) {
  double sum = 0;
  for (const auto& [to, edge] : node.waits_for) sum += edge.wait.ns;
  return sum;
}

// A timer's wait is work as far as others wait for its group: while they do, the group does what it
// does in the window.
void SetAwaited(std::vector<WaitNode>& nodes) {
  std::vector<const WaitEdge*> longest(nodes.size(), nullptr);
  for (const WaitNode& node : nodes) {
    for (const auto& [to, edge] : node.waits_for) {
      if (longest[to] == nullptr || edge.per_thread > longest[to]->per_thread) longest[to] = &edge;
    }
  }
  for (size_t i = 0; i < nodes.size(); i++) {
    WaitNode& node = nodes[i];
    const double busy_ns = node.work.ns + node.timer.ns;
    if (longest[i] == nullptr || node.timer.ns <= 0 || node.wall_ns <= 0) continue;
    const double share = longest[i]->per_thread / (busy_ns / node.wall_ns);
    node.awaited = std::min(1.0, share);
    if (share >= 1) continue;
    const SampledTime& wait = longest[i]->wait;
    node.awaited_variance = share * share *
                            (wait.variance / (wait.ns * wait.ns) +
                             (node.work.variance + node.timer.variance) / (busy_ns * busy_ns));
  }
}

// Hands each wait on, in proportion to what the group that is waited for does itself and whom it
// waits for.
void Redistribute(WaitGraph& graph) {
  std::vector<double> held(graph.nodes.size(), 0);
  for (WaitNode& node : graph.nodes) {
    for (auto& [to, edge] : node.waits_for) {
      edge.flow_ns = edge.wait.ns;
      held[to] += edge.wait.ns;
      graph.waits_ns += edge.wait.ns;
    }
  }
  double left = graph.waits_ns;
  for (int round = 0; round < kMostRounds && left > kLeft * graph.waits_ns; round++) {
    std::vector<double> next(graph.nodes.size(), 0);
    left = 0;
    for (size_t i = 0; i < graph.nodes.size(); i++) {
      if (held[i] <= 0) continue;
      WaitNode& node = graph.nodes[i];
      const double own_ns = node.Demand().ns + node.queue.ns;
      const double all_ns = own_ns + node.unknown.ns + WaitsOf(node);
      if (all_ns <= 0) {
        graph.unresolved_ns += held[i];
        continue;
      }
      node.ended_ns += held[i] * own_ns / all_ns;
      graph.unresolved_ns += held[i] * node.unknown.ns / all_ns;
      for (auto& [to, edge] : node.waits_for) {
        const double part = held[i] * edge.wait.ns / all_ns;
        edge.flow_ns += part;
        next[to] += part;
        left += part;
      }
    }
    held = std::move(next);
  }
  for (const double ns : held) graph.unresolved_ns += ns;
}

void SetCounting(std::vector<WaitNode>& nodes) {
  for (WaitNode& node : nodes) {
    const double busy_ns = node.Demand().ns + node.queue.ns + node.unknown.ns + WaitsOf(node);
    for (auto& [to, edge] : node.waits_for) {
      edge.counts = edge.wait.ns > kLeastShare * busy_ns &&
                    edge.wait.ns > kLeastErrors * std::sqrt(edge.wait.variance);
    }
  }
}

using Edges = std::vector<std::vector<uint32_t>>;

Edges EdgesOf(const WaitGraph& graph, bool reversed) {
  Edges edges(graph.nodes.size());
  for (uint32_t i = 0; i < graph.nodes.size(); i++) {
    for (const auto& [to, edge] : graph.nodes[i].waits_for) {
      if (!edge.counts || to == i) continue;
      edges[reversed ? to : i].push_back(reversed ? i : to);
    }
  }
  return edges;
}

std::vector<bool> Reach(const Edges& edges, const std::vector<uint32_t>& from) {
  std::vector<bool> reached(edges.size(), false);
  std::vector<uint32_t> open = from;
  while (!open.empty()) {
    const uint32_t node = open.back();
    open.pop_back();
    if (reached[node]) continue;
    reached[node] = true;
    open.insert(open.end(), edges[node].begin(), edges[node].end());
  }
  return reached;
}

}  // namespace

Role RoleOf(const State& state) {
  if (state.reason == profd::v1::REASON_ON_CPU) return Role::kWork;
  if (state.reason == profd::v1::REASON_RUNQUEUE) return Role::kQueue;
  if (state.reason == profd::v1::REASON_SLEEP) return Role::kTimer;
  if (state.idle) return Role::kIdle;
  if (state.waker.kind == WakerKind::kGroup) return Role::kThread;
  if (IsForStorage(state.reason)) return Role::kWork;
  if (state.waker.kind == WakerKind::kInterrupt && state.waker.name == "[timer]") {
    return Role::kTimer;
  }
  return state.waker.kind == WakerKind::kUnknown ? Role::kUnknown : Role::kWork;
}

SampledTime WaitNode::Demand() const {
  SampledTime demand = work;
  demand.Add(awaited * timer.ns,
             awaited * awaited * timer.variance + timer.ns * timer.ns * awaited_variance);
  return demand;
}

WaitGraph BuildWaitGraph(const Activity& activity, size_t groups) {
  WaitGraph graph;
  graph.nodes.resize(groups);
  for (size_t i = 0; i < groups; i++) {
    const ThreadGroup& group = activity.groups[i];
    WaitNode& node = graph.nodes[i];
    node.wall_ns = static_cast<double>(group.wall_ns);
    for (const State& state : group.states) AddState(state, node);
    SetPerThread(activity, group, node);
    graph.unknown.Add(node.unknown.ns, node.unknown.variance);
  }
  SetAwaited(graph.nodes);
  Redistribute(graph);
  SetCounting(graph.nodes);
  return graph;
}

// A knot is all that can be reached from each of its groups. From any group, going on to one that
// reaches less ends in a knot.
std::vector<Knot> FindKnots(const WaitGraph& graph) {
  const Edges forward = EdgesOf(graph, false), backward = EdgesOf(graph, true);
  std::vector<bool> done(graph.nodes.size(), false);
  std::vector<Knot> knots;
  // Groups in the order in which a walk along the edges leaves them: a group that leaves after all
  // that it reaches is never before those that reach it.
  std::vector<uint32_t> left;
  std::vector<size_t> next(graph.nodes.size(), 0);
  for (uint32_t first = 0; first < graph.nodes.size(); first++) {
    if (done[first]) continue;
    std::vector<uint32_t> path = {first};
    done[first] = true;
    while (!path.empty()) {
      const uint32_t node = path.back();
      if (next[node] == forward[node].size()) {
        left.push_back(node);
        path.pop_back();
        continue;
      }
      const uint32_t to = forward[node][next[node]++];
      if (done[to]) continue;
      done[to] = true;
      path.push_back(to);
    }
  }
  // Against the edges, the last one first, each walk stays in one component.
  std::vector<uint32_t> component(graph.nodes.size(), 0);
  std::vector<Knot> components;
  std::fill(done.begin(), done.end(), false);
  for (auto root = left.rbegin(); root != left.rend(); ++root) {
    if (done[*root]) continue;
    Knot members;
    std::vector<uint32_t> open = {*root};
    done[*root] = true;
    while (!open.empty()) {
      const uint32_t node = open.back();
      open.pop_back();
      members.push_back(node);
      component[node] = static_cast<uint32_t>(components.size());
      for (const uint32_t from : backward[node]) {
        if (done[from]) continue;
        done[from] = true;
        open.push_back(from);
      }
    }
    std::sort(members.begin(), members.end());
    components.push_back(std::move(members));
  }
  for (uint32_t i = 0; i < components.size(); i++) {
    const bool leaves = std::any_of(components[i].begin(), components[i].end(), [&](uint32_t node) {
      return std::any_of(forward[node].begin(), forward[node].end(),
                         [&](uint32_t to) { return component[to] != i; });
    });
    if (!leaves) knots.push_back(components[i]);
  }
  return knots;
}

std::vector<bool> GroupsThatReach(const WaitGraph& graph, const std::vector<uint32_t>& targets) {
  return Reach(EdgesOf(graph, true), targets);
}

std::vector<bool> GroupsReachedFrom(const WaitGraph& graph, const std::vector<uint32_t>& sources) {
  return Reach(EdgesOf(graph, false), sources);
}

}  // namespace profctl
