#include "client/analysis/bottlenecks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

namespace profctl {
namespace {

constexpr double kErrors = 1.96;  // of a 95 % interval
// A group that nobody waits for limits something only if it works so much of its time. Bottlenecks
// take this share of their group's time.
constexpr double kLeastBusy = 0.05;
constexpr double kLeastTime = 0.01;

// What a group must do for the throughput of a knot.
struct Need {
  uint32_t group;
  double wall_ns;
  SampledTime time;
  double unknown_ns;
};

double Ratio(double whole, double part) {
  return part > 0 ? whole / part : std::numeric_limits<double>::infinity();
}

std::optional<double> Known(double factor) {
  if (std::isinf(factor)) return std::nullopt;
  return std::max(1.0, factor);
}

// The groups that a knot's throughput needs: those that wait for it, and whom these wait for, as
// far as they do.
std::vector<Need> NeedsOf(const WaitGraph& graph, const Knot& knot) {
  const std::vector<bool> need = GroupsThatReach(graph, knot);
  std::vector<double> waited(graph.nodes.size(), 0);
  for (uint32_t i = 0; i < graph.nodes.size(); i++) {
    if (!need[i]) continue;
    for (const auto& [to, edge] : graph.nodes[i].waits_for) {
      if (edge.counts) waited[to] += edge.wait.ns;
    }
  }
  std::vector<Need> demands;
  for (uint32_t i = 0; i < graph.nodes.size(); i++) {
    const WaitNode& node = graph.nodes[i];
    Need demand = {i, node.wall_ns, node.Demand(), node.unknown.ns};
    if (!need[i]) {
      demand.unknown_ns = 0;
      if (demand.time.ns > waited[i]) {
        const double part = waited[i] / demand.time.ns;
        demand.time = {waited[i], part * part * demand.time.variance};
      }
    }
    if (demand.time.ns > 0 || demand.unknown_ns > 0) demands.push_back(demand);
  }
  return demands;
}

// By how much the throughput may grow until some group has no time left, without `without` of
// `group`.
Gain GainOf(const std::vector<Need>& demands, uint32_t group, const SampledTime& without) {
  double at_most = std::numeric_limits<double>::infinity(), low = at_most, high = at_most;
  Gain gain;
  for (const Need& demand : demands) {
    double ns = demand.time.ns, variance = demand.time.variance;
    if (demand.group == group) {
      ns -= without.ns;
      variance = std::max(0.0, variance - without.variance);
      if (ns < 1e-9 * demand.time.ns) ns = 0;  // rounding
    }
    const double error = kErrors * std::sqrt(variance);
    if (Ratio(demand.wall_ns, ns) < at_most) gain.next = demand.group;
    at_most = std::min(at_most, Ratio(demand.wall_ns, ns));
    low = std::min(low, Ratio(demand.wall_ns, ns + error + demand.unknown_ns));
    high = std::min(high, Ratio(demand.wall_ns, ns - error));
  }
  gain.at_most = Known(at_most);
  gain.low = Known(low);
  gain.high = Known(high);
  return gain;
}

// Ended by an interrupt, or nobody saw by whom.
bool EndsByItself(const Waker& waker) {
  return waker.kind == WakerKind::kUnknown || waker.kind == WakerKind::kInterrupt;
}

// The places of a knot's group: equal ones added up.
std::vector<Bottleneck> PlacesOf(const Activity& activity, const WaitGraph& graph, const Knot& knot,
                                 uint32_t group) {
  using Key = std::tuple<Role, Reason, std::string, WakerKind, uint32_t, std::string, std::string>;
  const WaitNode& node = graph.nodes[group];
  std::map<Key, Bottleneck> places;
  for (const State& state : activity.groups[group].states) {
    const Role role = RoleOf(state);
    if (role == Role::kIdle || role == Role::kUnknown) continue;
    if (role == Role::kTimer && node.awaited <= 0) continue;
    const Waker& waker = state.waker;
    if (role == Role::kThread && !std::binary_search(knot.begin(), knot.end(), waker.group)) {
      continue;
    }
    const std::string function = role == Role::kQueue ? std::string() : state.function;
    // A sleep is one wait, and so is a wait for the disk, whether somebody saw who ended it or not.
    const Waker key = EndsByItself(waker) ? Waker() : waker;
    Bottleneck& place =
        places[Key(role, state.reason, function, key.kind, key.group, key.name, key.function)];
    if (place.time.ns == 0) {
      place.what = state;
      place.what.function = function;
      place.what.threads.clear();
      place.what.ticks = 0;
    } else if (place.what.waker.kind == WakerKind::kUnknown) {
      place.what.waker = waker;
    }
    const double counts = role == Role::kTimer ? node.awaited : 1;
    place.role = role;
    place.group = group;
    place.time.Add(counts * state.time_ns, counts * counts * state.variance);
    place.what.ticks += state.ticks;
  }
  std::vector<Bottleneck> found;
  const double own_ns = node.Demand().ns + node.queue.ns;
  for (auto& [key, place] : places) {
    if (place.time.ns < kLeastTime * node.wall_ns) continue;
    if (place.role == Role::kThread) {
      const WaitEdge& edge = node.waits_for.at(place.what.waker.group);
      place.others_ns = (edge.flow_ns - edge.wait.ns) * place.time.ns / edge.wait.ns;
    } else if (own_ns > 0) {
      place.others_ns = node.ended_ns * place.time.ns / own_ns;
    }
    found.push_back(std::move(place));
  }
  return found;
}

// The largest gain first; of equal ones, which the error makes equal, what takes more time.
bool ComesFirst(const Bottleneck& a, const Bottleneck& b) {
  const auto key = [](const Bottleneck& bottleneck) {
    const double most = bottleneck.gain.at_most.value_or(1e9);
    return std::pair(std::round(100 * std::min(most, 1e9)),
                     bottleneck.time.ns + bottleneck.others_ns);
  };
  return key(a) > key(b);
}

std::optional<KnotReport> ReportKnot(const Activity& activity, const WaitGraph& graph,
                                     const Knot& knot, size_t most) {
  KnotReport report;
  report.groups = knot;
  const std::vector<bool> need = GroupsThatReach(graph, knot);
  for (uint32_t i = 0; i < graph.nodes.size(); i++) {
    if (need[i] && !std::binary_search(knot.begin(), knot.end(), i)) report.waiters.push_back(i);
  }
  for (const uint32_t group : knot) {
    const WaitNode& node = graph.nodes[group];
    const SampledTime demand = node.Demand();
    report.time_ns += demand.ns + node.queue.ns + node.ended_ns;
    const double busy = node.wall_ns > 0 ? (demand.ns + node.queue.ns) / node.wall_ns : 0;
    if (busy < report.busy) continue;
    report.busy = busy;
    report.busy_error = node.wall_ns > 0 ? std::sqrt(demand.variance) / node.wall_ns : 0;
    report.busiest = group;
  }
  // Threads that only wait for what never comes, and work that takes next to no time.
  if (report.time_ns <= 0) return std::nullopt;
  if (report.waiters.empty() && knot.size() == 1 && report.busy < kLeastBusy) return std::nullopt;
  const std::vector<Need> demands = NeedsOf(graph, knot);
  for (const uint32_t group : knot) {
    for (Bottleneck& place : PlacesOf(activity, graph, knot, group)) {
      const bool works = place.role == Role::kWork || place.role == Role::kTimer;
      place.gain = GainOf(demands, group, works ? place.time : SampledTime());
      report.bottlenecks.push_back(std::move(place));
    }
  }
  std::stable_sort(report.bottlenecks.begin(), report.bottlenecks.end(), ComesFirst);
  if (report.bottlenecks.size() > most) {
    report.more = report.bottlenecks.size() - most;
    report.bottlenecks.resize(most);
  }
  return report;
}

}  // namespace

BottleneckReport FindBottlenecks(const Activity& activity, size_t groups,
                                 const BottleneckOptions& options) {
  BottleneckReport report;
  report.graph = BuildWaitGraph(activity, groups);
  const WaitGraph& graph = report.graph;
  std::vector<bool> wanted(groups, true);
  if (!options.groups.empty()) wanted = GroupsReachedFrom(graph, options.groups);
  for (size_t i = 0; i < groups; i++) {
    if (!wanted[i]) continue;
    report.unknown_ns += graph.nodes[i].unknown.ns;
    report.waits_ns += graph.nodes[i].unknown.ns;
    for (const auto& [to, edge] : graph.nodes[i].waits_for) report.waits_ns += edge.wait.ns;
    for (const State& state : activity.groups[i].states) {
      if (RoleOf(state) != Role::kIdle) report.ticks += state.ticks;
    }
  }
  for (const Knot& knot : FindKnots(graph)) {
    if (!wanted[knot.front()]) continue;
    std::optional<KnotReport> found = ReportKnot(activity, graph, knot, options.most);
    if (found) report.knots.push_back(*std::move(found));
  }
  std::stable_sort(report.knots.begin(), report.knots.end(),
                   [](const KnotReport& a, const KnotReport& b) { return a.time_ns > b.time_ns; });
  return report;
}

}  // namespace profctl
