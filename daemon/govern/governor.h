// Keeps the cost of profiling within the budget by turning knobs of sources. docs/governor.md has
// the order.
#ifndef PROFD_DAEMON_GOVERN_GOVERNOR_H_
#define PROFD_DAEMON_GOVERN_GOVERNOR_H_

#include <cstdint>
#include <vector>

#include "daemon/govern/budget.h"
#include "daemon/govern/knob.h"

namespace profd {

// Costs over the budget are first paid from savings, so that a burst after a quiet period is
// recorded in full. If the next second would cost more than that, the governor raises as many
// levels as needed. First it reduces samples, of the sources that save most. Then it switches
// sources off, in the documented order. Detail returns when it would have fitted well for a while,
// so load near the limit does not cause oscillation. Other sources may get fewer samples in
// exchange.
class Governor {
 public:
  // Knobs are turned in the order of these calls; they must outlive this. A knob with a `part` of
  // the budget keeps within that part by itself and is not turned when others exceed the budget.
  void AddKnob(Knob* knob, double part = 0);

  // Call it about once a second, after every source has learned the cost of the last `seconds`.
  // Returns the knobs whose level changed.
  std::vector<Knob*> Step(const Allowance& allowance, double seconds = 1);

  const std::vector<Knob*>& knobs() const { return knobs_; }
  uint64_t changes() const { return changes_; }

 private:
  struct Group {
    std::vector<Knob*> knobs;
    double part = 1;  // of the budget
  };

  using Levels = std::vector<int>;  // of a group's sources

  // Keeps a group within the allowance, of which others spend `fixed`.
  static void Keep(const Group& group, const Allowance& allowance, double seconds,
                   std::vector<Knob*>& changed);
  static Levels LevelsOf(const Group& group);
  static double CostOf(const Group& group, const Levels& levels);
  // Raise levels until the group costs at most `most`, or no level is left.
  static void TakeFewerSamples(const Group& group, double most, Levels& levels);
  static void GiveUp(const Group& group, double most, Levels& levels);
  // The lowest level that a source may return to; its present one if there is none.
  static int Affordable(const Group& group, double most, size_t source);
  // The source that may return now, among those with fewer samples or among those that are switched
  // off. Counts for how long each could have returned; sets `waiting` if one could.
  static Knob* Restored(const Group& group, double most, double seconds, bool fewer_samples,
                        bool* waiting);
  static void Take(const Group& group, const Levels& levels, std::vector<Knob*>& changed);

  std::vector<Knob*> knobs_;
  Group shared_;            // those that share the rest of the budget
  std::vector<Group> own_;  // of one source each
  uint64_t changes_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_GOVERN_GOVERNOR_H_
