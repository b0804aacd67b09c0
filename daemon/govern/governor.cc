#include "daemon/govern/governor.h"

#include <algorithm>
#include <utility>

namespace profd {
namespace {

// A source is switched off first only if it saves at least this share of the excess.
constexpr double kWorthwhile = 0.1;
// The predicted cost after throttling, as a share of the budget.
constexpr double kAim = 0.9;
// How long a lower level must have fitted within kComfort. A little less than ten steps of one
// second.
constexpr double kCalmSeconds = 9.5;

}  // namespace

void Governor::AddKnob(Knob* knob, double part) {
  knobs_.push_back(knob);
  if (part > 0) {
    own_.push_back({.knobs = {knob}, .part = part});
  } else {
    shared_.knobs.push_back(knob);
  }
}

Governor::Levels Governor::LevelsOf(const Group& group) {
  Levels levels;
  for (const Knob* source : group.knobs) levels.push_back(source->level_);
  return levels;
}

double Governor::CostOf(const Group& group, const Levels& levels) {
  double cost = 0;
  for (size_t i = 0; i < levels.size(); ++i) cost += group.knobs[i]->CostAt(levels[i]);
  return cost;
}

std::vector<Knob*> Governor::Step(const Allowance& allowance, double seconds) {
  std::vector<Knob*> changed;
  Allowance rest = allowance;
  for (const Group& group : own_) {
    Keep(group, {.rate = group.part * allowance.rate, .saved = group.part * allowance.saved},
         seconds, changed);
    rest.fixed += CostOf(group, LevelsOf(group));
  }
  Keep(shared_, rest, seconds, changed);
  changes_ += changed.size();
  return changed;
}

void Governor::Keep(const Group& group, const Allowance& allowance, double seconds,
                    std::vector<Knob*>& changed) {
  Levels levels = LevelsOf(group);
  if (allowance.fixed + CostOf(group, levels) > allowance.NextSecond()) {
    const double most = kAim * allowance.rate - allowance.fixed;
    TakeFewerSamples(group, most, levels);
    GiveUp(group, most, levels);
    for (size_t i = 0; i < levels.size(); ++i) {
      Knob* source = group.knobs[i];
      source->calm_seconds_ = 0;
      // If a source is switched off, the others may not need fewer samples after all.
      if (levels[i] < source->sampled_levels()) levels[i] = source->level_;
    }
    TakeFewerSamples(group, most, levels);
    Take(group, levels, changed);
    return;
  }
  // One source per step. Sources that are switched off come back before sources with fewer samples.
  const double most = kComfort * allowance.rate - allowance.fixed;
  bool waiting = false;
  bool waiting_for_samples = false;
  const Knob* restored = Restored(group, most, seconds, false, &waiting);
  const Knob* finer = Restored(group, most, seconds, true, &waiting_for_samples);
  if (!waiting) restored = finer;
  if (!restored) return;
  for (size_t i = 0; i < levels.size(); ++i) {
    if (group.knobs[i] == restored) levels[i] = restored->calm_level_;
    group.knobs[i]->calm_seconds_ = 0;
  }
  TakeFewerSamples(group, most, levels);
  Take(group, levels, changed);
}

void Governor::TakeFewerSamples(const Group& group, double most, Levels& levels) {
  while (CostOf(group, levels) > most) {
    int* dearest = nullptr;
    double most_saved = 0;
    for (size_t i = 0; i < levels.size(); ++i) {
      const Knob& source = *group.knobs[i];
      const int last = source.sampled_levels() - 1;
      if (levels[i] >= last) continue;
      const double saved = source.CostAt(levels[i]) - source.CostAt(last);
      if (saved <= most_saved) continue;
      dearest = &levels[i];
      most_saved = saved;
    }
    if (!dearest) return;
    ++*dearest;
  }
}

void Governor::GiveUp(const Group& group, double most, Levels& levels) {
  const Levels told = levels;
  double cost = CostOf(group, levels);
  // First the sources that save much; the small ones only if that is not enough.
  for (const double least : {kWorthwhile * (cost - most), 0.0}) {
    for (size_t i = 0; i < levels.size() && cost > most; ++i) {
      const Knob& source = *group.knobs[i];
      const double before = source.CostAt(levels[i]);
      if (before - source.CostAt(source.levels() - 1) <= least) continue;
      const double others = cost - before;
      while (levels[i] + 1 < source.levels() && others + source.CostAt(levels[i]) > most) {
        ++levels[i];
      }
      cost = others + source.CostAt(levels[i]);
    }
  }
  // A later source alone may have saved enough: keep the earlier ones if possible.
  for (size_t i = levels.size(); i-- > 0;) {
    const int fewest = group.knobs[i]->sampled_levels() - 1;
    if (told[i] > fewest || levels[i] <= fewest) continue;
    const int given_up = std::exchange(levels[i], fewest);
    if (CostOf(group, levels) > most) levels[i] = given_up;
  }
}

int Governor::Affordable(const Group& group, double most, size_t source) {
  const Levels levels = LevelsOf(group);
  const Knob& candidate = *group.knobs[source];
  const int now = levels[source];
  const double others = CostOf(group, levels) - candidate.CostAt(now);
  int level = now;
  while (level > 0 && others + candidate.CostAt(level - 1) <= most) --level;
  if (level < now || now < candidate.sampled_levels()) return level;
  // A source that is switched off matters more than the sampling rate of the others.
  Levels fewest = levels;
  for (size_t i = 0; i < levels.size(); ++i) {
    if (i != source) fewest[i] = std::max(levels[i], group.knobs[i]->sampled_levels() - 1);
  }
  level = candidate.sampled_levels() - 1;
  while (level < now) {
    fewest[source] = level;
    if (CostOf(group, fewest) <= most) break;
    ++level;
  }
  return level;
}

Knob* Governor::Restored(const Group& group, double most, double seconds, bool fewer_samples,
                         bool* waiting) {
  Knob* restored = nullptr;
  // The source that was switched off last comes back first.
  for (size_t i = group.knobs.size(); i-- > 0;) {
    Knob* source = group.knobs[i];
    if (source->level_ == 0 || (source->level_ < source->sampled_levels()) != fewer_samples)
      continue;
    const int level = Affordable(group, most, i);
    source->calm_level_ = source->calm_seconds_ == 0 ? level : std::max(level, source->calm_level_);
    source->calm_seconds_ = level < source->level_ ? source->calm_seconds_ + seconds : 0;
    *waiting |= source->calm_seconds_ > 0;
    if (!restored && source->calm_seconds_ >= kCalmSeconds) restored = source;
  }
  return restored;
}

void Governor::Take(const Group& group, const Levels& levels, std::vector<Knob*>& changed) {
  for (size_t i = 0; i < levels.size(); ++i) {
    Knob* source = group.knobs[i];
    if (source->level_ == levels[i]) continue;
    source->level_ = levels[i];
    changed.push_back(source);
  }
}

}  // namespace profd
