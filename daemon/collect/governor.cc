#include "daemon/collect/governor.h"

#include <algorithm>

namespace profd {
namespace {

// Of the budget: what a new level may be expected to cost, and what restoring one may.
// Share of what has to be saved that a source must be able to save, to be asked first.
constexpr double kWorthwhile = 0.1;
constexpr double kAim = 0.9;
constexpr double kComfort = 0.7;
// Steps that a lower level must have been within kComfort.
constexpr int kCalmSteps = 10;

}  // namespace

double Governor::CostOf(Payer payer) const {
  double cost = 0;
  for (const GovernedSource* source : sources_) {
    if (source->payer() == payer) cost += source->CostAt(source->level());
  }
  return cost;
}

std::vector<GovernedSource*> Governor::Step() {
  std::vector<GovernedSource*> changed;
  Keep(Payer::kTarget, budgets_.target, changed);
  Keep(Payer::kDaemon, budgets_.daemon, changed);
  changes_ += changed.size();
  return changed;
}

void Governor::Keep(Payer payer, double budget, std::vector<GovernedSource*>& changed) {
  double cost = CostOf(payer);
  if (cost > budget) {
    // First those that help; the small ones only where that was not enough.
    for (const double least : {kWorthwhile * (cost - kAim * budget), 0.0}) {
      for (GovernedSource* source : sources_) {
        if (source->payer() != payer) continue;
        source->calm_steps_ = 0;
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
  for (auto it = sources_.rbegin(); it != sources_.rend(); ++it) {
    GovernedSource* source = *it;
    if (source->payer() != payer || source->level_ == 0) continue;
    const double others = cost - source->CostAt(source->level_);
    int level = source->level_;
    while (level > 0 && others + source->CostAt(level - 1) <= kComfort * budget) --level;
    source->calm_level_ = source->calm_steps_ == 0 ? level : std::max(level, source->calm_level_);
    source->calm_steps_ = level < source->level_ ? source->calm_steps_ + 1 : 0;
    if (source->calm_steps_ >= kCalmSteps) {
      source->level_ = source->calm_level_;
      source->calm_steps_ = 0;
      changed.push_back(source);
    }
    return;
  }
}

}  // namespace profd
