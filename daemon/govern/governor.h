// Keeps what profiling costs within the budget, by asking sources to give something up.
// docs/governor.md has the plan of what goes first.
#ifndef PROFD_DAEMON_GOVERN_GOVERNOR_H_
#define PROFD_DAEMON_GOVERN_GOVERNOR_H_

#include <cstdint>
#include <vector>

#include "daemon/govern/budget.h"
#include "daemon/govern/knob.h"

namespace profd {

// Costs over the budget are first paid from what was saved, so that a burst after a quiet time is
// recorded whole. When the next second would cost more than that, they are answered by as many
// levels as it takes: first by fewer samples, of the sources that can save most by that; then by
// giving up sources, in the order of the plan. What was given up comes back when it would have
// fitted well for a while, so that a load at the edge does not swing; if need be for fewer samples
// of others.
class Governor {
 public:
  // In the order in which they are asked to give something up; must outlive this. One with a `part`
  // of the budget keeps to that by itself, and is not asked when others pass the budget.
  void AddKnob(Knob* knob, double part = 0);

  // After every source has learned what the last `seconds` cost, once a second or so. Returns those
  // whose level changed.
  std::vector<Knob*> Step(const Allowance& allowance, double seconds = 1);

  const std::vector<Knob*>& knobs() const { return knobs_; }
  uint64_t changes() const { return changes_; }

 private:
  struct Group {
    std::vector<Knob*> knobs;
    double part = 1;  // of the budget
  };

  using Levels = std::vector<int>;  // of a group's sources

  // Has a group keep within what is allowed, of which `fixed` is spent by others.
  static void Keep(const Group& group, const Allowance& allowance, double seconds,
                   std::vector<Knob*>& changed);
  static Levels LevelsOf(const Group& group);
  static double CostOf(const Group& group, const Levels& levels);
  // Raise levels until the group costs no more than `most`, or they can no further.
  static void TakeFewerSamples(const Group& group, double most, Levels& levels);
  static void GiveUp(const Group& group, double most, Levels& levels);
  // The lowest level that a source may come back to; the one it has where there is none.
  static int Affordable(const Group& group, double most, size_t source);
  // Which of the sources that have fewer samples, or of those that do not tell of something, may
  // come back now. Counts how long each could have; `waiting` is set when one could.
  static Knob* Restored(const Group& group, double most, double seconds, bool fewer_samples,
                        bool* waiting);
  static void Take(const Group& group, const Levels& levels, std::vector<Knob*>& changed);

  std::vector<Knob*> knobs_;
  Group shared_;            // those that share what is left of the budget
  std::vector<Group> own_;  // one source each
  uint64_t changes_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_GOVERN_GOVERNOR_H_
