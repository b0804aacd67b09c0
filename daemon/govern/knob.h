// What the governor turns: how much a source of costs does.
#ifndef PROFD_DAEMON_GOVERN_KNOB_H_
#define PROFD_DAEMON_GOVERN_KNOB_H_

#include <string>

namespace profd {

// Who pays for a source.
enum class Payer {
  kTarget,  // it runs in the path of the traced threads
  kDaemon,  // it runs on CPU time of profd
};

// Turns a source of costs down. At level 0 it gives everything.
class Knob {
 public:
  virtual ~Knob() = default;
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

// For costs that a knob learns: takes part of a new measure over, or all of the first one. A second
// holds a few hundred timed runs at least where the cost matters.
inline void Smooth(double& value, double mean) {
  constexpr double kPart = 0.3;
  value = value == 0 ? mean : value + kPart * (mean - value);
}

}  // namespace profd

#endif  // PROFD_DAEMON_GOVERN_KNOB_H_
