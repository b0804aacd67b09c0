#include "daemon/collect/governor.h"

#include <algorithm>

namespace profd {
namespace {

// Of the budget: what a new level may be expected to cost, and what restoring one may.
// Share of what has to be saved that a source must be able to save, to be asked first.
constexpr double kWorthwhile = 0.1;
constexpr double kAim = 0.9;
constexpr double kComfort = 0.7;
// For how long a lower level must have been within kComfort; a little less than ten steps of a second.
constexpr double kCalmSeconds = 9.5;

}  // namespace

void Governor::AddSource(GovernedSource* source, double part) {
  sources_.push_back(source);
  if (part > 0) {
    own_.push_back({.sources = {source}, .part = part});
  } else {
    shared_[static_cast<size_t>(source->payer())].sources.push_back(source);
  }
}

double Governor::CostOf(const Group& group) {
  double cost = 0;
  for (const GovernedSource* source : group.sources) cost += source->CostAt(source->level());
  return cost;
}

std::vector<GovernedSource*> Governor::Step(double seconds) {
  std::vector<GovernedSource*> changed;
  KeepAll(Payer::kTarget, budgets_.target, seconds, changed);
  KeepAll(Payer::kDaemon, budgets_.daemon, seconds, changed);
  changes_ += changed.size();
  return changed;
}

void Governor::KeepAll(Payer payer, double budget, double seconds,
                       std::vector<GovernedSource*>& changed) {
  double spent = 0;
  for (const Group& group : own_) {
    if (group.sources[0]->payer() != payer) continue;
    Keep(group, group.part * budget, 0, seconds, changed);
    spent += CostOf(group);
  }
  Keep(shared_[static_cast<size_t>(payer)], budget, spent, seconds, changed);
}

void Governor::Keep(const Group& group, double budget, double spent, double seconds,
                    std::vector<GovernedSource*>& changed) {
  const std::vector<GovernedSource*>& sources = group.sources;
  double cost = spent + CostOf(group);
  if (cost > budget) {
    // First those that help; the small ones only where that was not enough.
    for (const double least : {kWorthwhile * (cost - kAim * budget), 0.0}) {
      for (GovernedSource* source : sources) {
        source->calm_seconds_ = 0;
        if (cost <= kAim * budget) continue;
        const int before = source->level_;
        const double saving = source->CostAt(before) - source->CostAt(source->levels() - 1);
        if (saving <= least) continue;
        const double others = cost - source->CostAt(before);
        while (source->level_ + 1 < source->levels() &&
               others + source->CostAt(source->level_) > kAim * budget) {
          ++source->level_;
        }
        cost = others + source->CostAt(source->level_);
        if (source->level_ != before) changed.push_back(source);
      }
    }
    return;
  }
  // What was given up last comes back first, one source at a step.
  for (auto it = sources.rbegin(); it != sources.rend(); ++it) {
    GovernedSource* source = *it;
    if (source->level_ == 0) continue;
    const double others = cost - source->CostAt(source->level_);
    int level = source->level_;
    while (level > 0 && others + source->CostAt(level - 1) <= kComfort * budget) --level;
    source->calm_level_ = source->calm_seconds_ == 0 ? level : std::max(level, source->calm_level_);
    source->calm_seconds_ = level < source->level_ ? source->calm_seconds_ + seconds : 0;
    if (source->calm_seconds_ >= kCalmSeconds) {
      source->level_ = source->calm_level_;
      source->calm_seconds_ = 0;
      changed.push_back(source);
    }
    return;
  }
}

}  // namespace profd
