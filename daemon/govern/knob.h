// A knob of the governor: how much detail a source collects.
#ifndef PROFD_DAEMON_GOVERN_KNOB_H_
#define PROFD_DAEMON_GOVERN_KNOB_H_

#include <string>

namespace profd {

// Who pays for a source.
enum class Payer {
  kTarget,  // it runs in the targets' path
  kDaemon,  // it uses CPU time of profd
};

// Throttles a source. Level 0 is full detail.
class Knob {
 public:
  virtual ~Knob() = default;
  virtual const char* name() const = 0;
  virtual Payer payer() const = 0;
  virtual int levels() const = 0;
  // The number of levels, from 0 on, that only reduce samples. At higher levels some data is
  // missing altogether.
  virtual int sampled_levels() const { return 1; }
  // The predicted cost at a level under the load of the last second, as a share of one CPU. Does
  // not rise with the level.
  virtual double CostAt(int level) const = 0;
  // What it costs now, to be told, as such a share.
  virtual double CostNow() const { return CostAt(level()); }
  // What is given up at a level, for people; empty for level 0.
  virtual std::string GivenUpAt(int level) const = 0;

  int level() const { return level_; }

 private:
  friend class Governor;
  int level_ = 0;
  // Consecutive seconds in which a lower level would have been well within the budget.
  double calm_seconds_ = 0;
  int calm_level_ = 0;  // the lowest level that would have fitted in all of them
};

// Exponential smoothing of a cost that a knob learns; the first value is taken as it is. If the
// cost matters, a second contains at least a few hundred timed runs.
inline void Smooth(double& value, double mean) {
  constexpr double kPart = 0.3;
  value = value == 0 ? mean : value + kPart * (mean - value);
}

}  // namespace profd

#endif  // PROFD_DAEMON_GOVERN_KNOB_H_
