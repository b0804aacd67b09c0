// Keeps what profiling costs within the budgets, by asking sources to give something up.
// docs/governor.md has the plan of what goes first.
#ifndef PROFD_DAEMON_COLLECT_GOVERNOR_H_
#define PROFD_DAEMON_COLLECT_GOVERNOR_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace profd {

// Who pays for a source.
enum class Payer {
  kTarget,  // it runs in the path of the traced threads
  kDaemon,  // it runs on CPU time of profd
};

inline constexpr double kNoBudget = std::numeric_limits<double>::infinity();

struct Budgets {
  double target = 0.005;  // shares of one CPU; kNoBudget: as much as it takes
  double daemon = 0.005;
};

// A source of costs that can be turned down. At level 0 it gives everything.
class GovernedSource {
 public:
  virtual ~GovernedSource() = default;
  virtual const char* name() const = 0;
  virtual Payer payer() const = 0;
  virtual int levels() const = 0;
  // At so many levels, from 0 on, it tells of everything, only by fewer samples. At the others
  // there is something that it does not tell of at all.
  virtual int sampled_levels() const { return 1; }
  // What it would cost at a level under the load of the last second, as a share of one CPU. Does
  // not rise with the level.
  virtual double CostAt(int level) const = 0;
  // What is lost at a level, for a person; empty for level 0.
  virtual std::string GivenUpAt(int level) const = 0;

  int level() const { return level_; }

 private:
  friend class Governor;
  int level_ = 0;
  // Seconds in a row in which a lower level would have been well within the budget.
  double calm_seconds_ = 0;
  int calm_level_ = 0;  // the lowest that would have been in all of them
};

// Costs over the budget are answered at once, by as many levels as it takes: first by fewer
// samples, of the sources that can save most by that; then by giving up sources, in the order of
// the plan. What was given up comes back when it would have fitted well for a while, so that a load
// at the edge does not swing; if need be for fewer samples of others.
class Governor {
 public:
  explicit Governor(Budgets budgets) : budgets_(budgets) {}

  // In the order in which they are asked to give something up; must outlive this. One with a `part`
  // of its payer's budget keeps to that by itself, and is not asked when others pass the budget.
  void AddSource(GovernedSource* source, double part = 0);

  // After every source has learned what the last `seconds` cost, once a second or so. Returns those
  // whose level changed.
  std::vector<GovernedSource*> Step(double seconds = 1);

  const Budgets& budgets() const { return budgets_; }
  const std::vector<GovernedSource*>& sources() const { return sources_; }
  uint64_t changes() const { return changes_; }

 private:
  struct Group {
    std::vector<GovernedSource*> sources;
    double part = 1;  // of the payer's budget
  };

  using Levels = std::vector<int>;  // of a group's sources

  // Has a group keep within the budget, of which `spent` is spent by others.
  static void Keep(const Group& group, double budget, double spent, double seconds,
                   std::vector<GovernedSource*>& changed);
  static Levels LevelsOf(const Group& group);
  static double CostOf(const Group& group, const Levels& levels);
  // Raise levels until the group costs no more than `most`, or they can no further.
  static void TakeFewerSamples(const Group& group, double most, Levels& levels);
  static void GiveUp(const Group& group, double most, Levels& levels);
  // The lowest level that a source may come back to; the one it has where there is none.
  static int Affordable(const Group& group, double most, size_t source);
  // Which of the sources that have fewer samples, or of those that do not tell of something, may
  // come back now. Counts how long each could have; `waiting` is set when one could.
  static GovernedSource* Restored(const Group& group, double most, double seconds,
                                  bool fewer_samples, bool* waiting);
  static void Take(const Group& group, const Levels& levels, std::vector<GovernedSource*>& changed);
  void KeepAll(Payer payer, double budget, double seconds, std::vector<GovernedSource*>& changed);

  const Budgets budgets_;
  std::vector<GovernedSource*> sources_;
  Group shared_[2];         // by payer: those that share what is left of the budget
  std::vector<Group> own_;  // one source each
  uint64_t changes_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_COLLECT_GOVERNOR_H_
