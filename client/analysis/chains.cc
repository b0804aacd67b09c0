#include "client/analysis/chains.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <utility>

namespace profctl {
namespace {

struct Amount {
  double time_ns = 0;
  double variance = 0;

  void Add(double time, double more_variance) {
    time_ns += time;
    variance += more_variance;
  }
};

// A state of a waker, and which share of the wait it was in it.
struct Share {
  const State* state;  // null: what no state explains
  double share;
  double variance;     // of the share
  double with_demand;  // the part of its error that goes with that of the wait itself
};

// A part of a state on a chain.
struct Part {
  const State* state;
  Amount amount;
};

// A part of the waits of one group that another one ended from one function.
struct Wakes {
  uint32_t waiter;  // index of the group, or of its selected part
  uint32_t waker;
  std::string function;
  friend auto operator<=>(const Wakes&, const Wakes&) = default;
};

struct Demand {
  double all_ns = 0;    // the mean thread waited for the waker so long
  double share = 0;     // of that for this function
  double variance = 0;  // of all_ns * share
};

// States that explain a wait, one tier after the other.
struct Tier {
  std::vector<const State*> states;
  Amount whole;      // their time
  double scale = 1;  // the part of it that is for this function
};

using Path = std::vector<uint32_t>;  // groups, the first waiter first

bool Contains(const Path& path, uint32_t group) {
  return std::find(path.begin(), path.end(), group) != path.end();
}

// What part of a wait of `demand` each state accounts for: tiers are used up in turn.
std::vector<Share> Divide(std::span<const Tier> tiers, const Demand& demand) {
  std::vector<Share> shares;
  const double wanted = demand.all_ns * demand.share;
  if (wanted <= 0) return {{.state = nullptr, .share = 1, .variance = 0, .with_demand = 0}};
  double used = 0;           // of `wanted`
  double used_variance = 0;  // of the time that is used up
  for (const Tier& tier : tiers) {
    const double capacity = tier.whole.time_ns * tier.scale;
    if (capacity <= 0) continue;
    const double left = wanted - used;
    if (left <= 0) break;
    const bool whole = capacity <= left;
    const double part = whole ? capacity / wanted : left / wanted;
    for (const State* state : tier.states) {
      const double of_tier = state->time_ns / tier.whole.time_ns;
      if (whole) {
        // time * scale / wanted
        const double factor = tier.scale / wanted;
        const double relative = state->time_ns * factor / wanted;
        shares.push_back(
            {.state = state,
             .share = part * of_tier,
             .variance = factor * factor * state->variance + relative * relative * demand.variance,
             .with_demand = 0});
        continue;
      }
      // (1 - used / wanted) * time / whole
      const double others = std::max(0.0, tier.whole.variance - state->variance);
      const double ratio =
          ((1 - of_tier) * (1 - of_tier) * state->variance + of_tier * of_tier * others) /
          (tier.whole.time_ns * tier.whole.time_ns);
      const double rest = of_tier / wanted;
      shares.push_back({.state = state,
                        .share = part * of_tier,
                        .variance = part * part * ratio + rest * rest * used_variance,
                        .with_demand = rest * used / wanted * std::sqrt(demand.variance)});
    }
    used += whole ? capacity : left;
    used_variance += tier.scale * tier.scale * tier.whole.variance;
  }
  // Rounding leaves a little, too.
  const double left = 1 - used / wanted;
  if (left > 1e-9) {
    shares.push_back({.state = nullptr,
                      .share = left,
                      .variance = used_variance / (wanted * wanted),
                      .with_demand = used / (wanted * wanted) * std::sqrt(demand.variance)});
  }
  return shares;
}

class Tree {
 public:
  Tree(const Activity& activity, const ChainOptions& options, Chains* chains)
      : activity_(activity), options_(options), chains_(chains) {}

  void Build() {
    const ThreadGroup& group = activity_.groups[chains_->root.part];
    std::vector<Part> parts;
    for (const State& state : group.states) {
      if (state.idle || !Asked(state.reason)) continue;
      parts.push_back({&state, {state.time_ns, state.variance}});
      chains_->waits_ns += state.time_ns;
      chains_->variance += state.variance;
    }
    least_ns_ = options_.least_share * chains_->waits_ns;
    Link root;
    root.kind = LinkKind::kWaker;
    Expand(parts, chains_->root.part, chains_->root.whole, {}, 0, &root);
    chains_->links = std::move(root.next);
    for (const Link& link : chains_->links) FindEnds(link, nullptr);
    for (auto& [key, end] : ends_) chains_->ends.push_back(std::move(end));
    std::stable_sort(
        chains_->ends.begin(), chains_->ends.end(),
        [](const ChainEnd& a, const ChainEnd& b) { return a.end.time_ns > b.end.time_ns; });
    for (const auto& [pair, time_ns] : cycles_) {
      chains_->cycles.push_back({.waker = pair.first, .waiter = pair.second, .time_ns = time_ns});
    }
    std::stable_sort(chains_->cycles.begin(), chains_->cycles.end(),
                     [](const Cycle& a, const Cycle& b) { return a.time_ns > b.time_ns; });
  }

 private:
  bool Asked(Reason reason) const {
    if (reason == profd::v1::REASON_ON_CPU) return false;
    return options_.reasons.empty() || std::find(options_.reasons.begin(), options_.reasons.end(),
                                                 reason) != options_.reasons.end();
  }

  static LinkKind KindOf(const State& state) {
    if (state.reason == profd::v1::REASON_ON_CPU) return LinkKind::kOnCpu;
    if (state.reason == profd::v1::REASON_RUNQUEUE) return LinkKind::kRunQueue;
    return LinkKind::kWait;
  }

  static LinkKind KindOf(WakerKind kind) {
    switch (kind) {
      case WakerKind::kGroup:
        return LinkKind::kWaker;
      case WakerKind::kOutside:
        return LinkKind::kOutside;
      case WakerKind::kInterrupt:
        return LinkKind::kInterrupt;
      case WakerKind::kNone:
      case WakerKind::kUnknown:
        break;
    }
    return LinkKind::kUnknown;
  }

  static void Sort(Link* link) {
    std::stable_sort(link->next.begin(), link->next.end(),
                     [](const Link& a, const Link& b) { return a.time_ns > b.time_ns; });
  }

  // Adds `link`, or its time to that of small parts.
  void Append(Link&& link, Link* parent) const {
    if (link.time_ns >= least_ns_) {
      parent->next.push_back(std::move(link));
      return;
    }
    auto small = std::find_if(parent->next.begin(), parent->next.end(),
                              [](const Link& l) { return l.kind == LinkKind::kSmall; });
    if (small == parent->next.end()) {
      parent->next.push_back({.kind = LinkKind::kSmall, .group = link.group});
      small = parent->next.end() - 1;
    }
    small->time_ns += link.time_ns;
    small->variance += link.variance;
  }

  // Divides time of a group by what it did. `states`: the group or part of it whose states they
  // are; `group`: as it is on the path.
  void Expand(const std::vector<Part>& parts, uint32_t states, uint32_t group, const Path& path,
              int depth, Link* parent) {
    using Place = std::tuple<LinkKind, Reason, std::string, bool>;
    std::map<Place, std::vector<const Part*>> places;
    for (const Part& part : parts) {
      const LinkKind kind = KindOf(*part.state);
      places[{kind, part.state->reason,
              kind == LinkKind::kRunQueue ? std::string() : part.state->function,
              part.state->for_work}]
          .push_back(&part);
    }
    for (const auto& [place, own] : places) {
      Link link = {.kind = std::get<0>(place),
                   .group = group,
                   .reason = std::get<1>(place),
                   .function = std::get<2>(place),
                   .for_work = std::get<3>(place)};
      for (const Part* part : own) {
        link.time_ns += part->amount.time_ns;
        link.variance += part->amount.variance;
      }
      if (link.kind == LinkKind::kWait && link.time_ns >= least_ns_) {
        AddWakers(own, states, group, path, depth, &link);
      }
      Append(std::move(link), parent);
    }
    Sort(parent);
  }

  // Divides a wait by who ended it.
  void AddWakers(const std::vector<const Part*>& parts, uint32_t states, uint32_t group,
                 const Path& path, int depth, Link* wait) {
    using Key = std::tuple<LinkKind, uint32_t, std::string, std::string>;
    std::map<Key, Amount> wakers;
    for (const Part* part : parts) {
      const Waker& waker = part->state->waker;
      wakers[{KindOf(waker.kind), waker.group, waker.name, waker.function}].Add(
          part->amount.time_ns, part->amount.variance);
    }
    for (const auto& [key, amount] : wakers) {
      Link link = {.kind = std::get<0>(key),
                   .group = std::get<0>(key) == LinkKind::kWaker ? std::get<1>(key) : group,
                   .function = std::get<3>(key),
                   .name = std::get<2>(key),
                   .time_ns = amount.time_ns,
                   .variance = amount.variance};
      if (link.kind == LinkKind::kWaker && link.time_ns >= least_ns_) {
        Follow(states, group, path, depth + 1, &link);
      }
      Append(std::move(link), wait);
    }
    Sort(wait);
  }

  // What a waker did while it was waited for.
  void Follow(uint32_t waiter, uint32_t group, Path path, int depth, Link* waker) {
    if (depth > options_.depth) {
      waker->next.push_back({.kind = LinkKind::kNotFollowed,
                             .group = waker->group,
                             .time_ns = waker->time_ns,
                             .variance = waker->variance});
      return;
    }
    path.push_back(group);
    std::vector<Part> parts;
    std::optional<Link> unexplained;
    const double time = waker->time_ns;
    for (const Share& share : Mix({waiter, waker->group, waker->function}, path)) {
      const double together = share.share * std::sqrt(waker->variance) + time * share.with_demand;
      const Amount amount = {.time_ns = time * share.share,
                             .variance = together * together + time * time * share.variance};
      if (share.state != nullptr) {
        parts.push_back({share.state, amount});
      } else {
        unexplained = {.kind = LinkKind::kUnexplained,
                       .group = waker->group,
                       .time_ns = amount.time_ns,
                       .variance = amount.variance};
      }
    }
    Expand(parts, waker->group, waker->group, path, depth, waker);
    if (unexplained) Append(*std::move(unexplained), waker);
    Sort(waker);
  }

  // How many of these threads there were at a time; at least one.
  double MeanThreads(const std::set<uint32_t>& threads) const {
    double wall_ns = 0;
    for (const uint32_t thread : threads) {
      wall_ns += static_cast<double>(activity_.wall_ns[thread]);
    }
    if (activity_.window_ns <= 0) return 1;
    return std::max(1.0, wall_ns / static_cast<double>(activity_.window_ns));
  }

  Demand DemandOf(const Wakes& wakes) {
    Demand demand;
    std::set<uint32_t> threads;
    Amount all, own;
    for (const State& state : activity_.groups[wakes.waiter].states) {
      if (state.waker.kind != WakerKind::kGroup || state.waker.group != wakes.waker) continue;
      threads.insert(state.threads.begin(), state.threads.end());
      all.Add(state.time_ns, state.variance);
      if (state.waker.function == wakes.function) own.Add(state.time_ns, state.variance);
    }
    if (all.time_ns <= 0) return demand;
    const double count = MeanThreads(threads);
    demand.all_ns = all.time_ns / count;
    demand.share = own.time_ns / all.time_ns;
    demand.variance = own.variance / (count * count);
    return demand;
  }

  // The states of a waker while it was waited for.
  std::vector<Share> Mix(const Wakes& wakes, const Path& path) {
    const Demand demand = DemandOf(wakes);
    const auto function = activity_.functions.find(wakes.function);
    Tier within, active, idle;
    for (const State& state : activity_.groups[wakes.waker].states) {
      if (state.waker.kind == WakerKind::kGroup && Contains(path, state.waker.group)) {
        NoteCycle(wakes.waker, state);
        continue;
      }
      const std::vector<uint32_t>& stack = activity_.stacks[state.stack];
      const bool inside = function != activity_.functions.end() &&
                          std::binary_search(stack.begin(), stack.end(), function->second);
      Tier& tier = state.for_work ? idle : inside ? within : active;
      tier.states.push_back(&state);
      tier.whole.Add(state.time_ns, state.variance);
    }
    // Time outside of the function is there for the waits that other functions end, too.
    active.scale = idle.scale = demand.share;
    const Tier tiers[] = {std::move(within), std::move(active), std::move(idle)};
    return Divide(tiers, demand);
  }

  void NoteCycle(uint32_t waker, const State& state) {
    const auto [it, fresh] = noted_.insert(&state);
    if (fresh) cycles_[{waker, state.waker.group}] += state.time_ns;
  }

  void FindEnds(const Link& link, const Link* wait) {
    if (link.kind == LinkKind::kWait) wait = &link;
    if (!link.next.empty()) {
      for (const Link& next : link.next) FindEnds(next, wait);
      return;
    }
    // What was done meanwhile is an end in itself; the rest ended a wait.
    const bool ended = link.kind == LinkKind::kInterrupt || link.kind == LinkKind::kOutside ||
                       link.kind == LinkKind::kUnknown;
    const Link& end_wait = ended && wait != nullptr ? *wait : link;
    const EndKey key(link.kind, link.group, end_wait.reason, end_wait.function, link.name,
                     link.kind == LinkKind::kOutside ? link.function : std::string());
    ChainEnd& end = ends_[key];
    if (end.end.time_ns == 0) {
      end.end = link;
      end.wait = end_wait;
      end.wait.next.clear();
      end.end.time_ns = 0;
    }
    end.end.time_ns += link.time_ns;
    end.error_ns += std::sqrt(link.variance);  // of one cause: they go together
  }

  using EndKey = std::tuple<LinkKind, uint32_t, Reason, std::string, std::string, std::string>;

  const Activity& activity_;
  const ChainOptions& options_;
  Chains* const chains_;
  double least_ns_ = 0;
  std::map<EndKey, ChainEnd> ends_;
  std::map<std::pair<uint32_t, uint32_t>, double> cycles_;
  std::set<const State*> noted_;
};

}  // namespace

Chains FollowChains(const Activity& activity, const Root& root, const ChainOptions& options) {
  Chains chains;
  chains.root = root;
  Tree(activity, options, &chains).Build();
  return chains;
}

}  // namespace profctl
