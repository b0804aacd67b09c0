// What the governor can turn of drains.
#ifndef PROFD_DAEMON_COLLECT_DRAIN_KNOB_H_
#define PROFD_DAEMON_COLLECT_DRAIN_KNOB_H_

#include <cstdint>
#include <string>

#include "daemon/govern/knob.h"

namespace profd {

// Drains: where reading the accounts of many threads takes too much, they come less often.
class DrainKnob final : public Knob {
 public:
  // Of the budget.
  static constexpr double kPart = 0.25;

  struct Work {
    double seconds = 0;  // in which they were; 0: not known
    int64_t drains = 0;
    int64_t cpu_ns = 0;   // of them
    int64_t threads = 0;  // accounts, counters and new stacks that they took out
    int64_t counters = 0;
    int64_t stacks = 0;
    int64_t resting = 0;  // threads that they left out
    bool whole = false;   // one left nobody out, because it was time to
  };
  // Returns how much of the CPU time came of what ticks had put together.
  int64_t Learn(const Work& work);

  // What a level means.
  int64_t IntervalAt(int level) const;

  const char* name() const override { return "drain"; }
  Payer payer() const override { return Payer::kDaemon; }
  int levels() const override;
  int sampled_levels() const override { return levels(); }
  double CostAt(int level) const override;
  // Drains that somebody asked for, or that came because something was full, are no part of the
  // plan, but they cost as much. The mean over some ten seconds.
  double CostNow() const override { return spent_; }
  std::string GivenUpAt(int level) const override;

 private:
  double drain_ns_ = 0;  // of a drain on the mean, without what comes of ticks
  double spent_ = 0;     // share of a CPU, as in CostNow()
  bool whole_ = false;   // as told last
};

}  // namespace profd

#endif  // PROFD_DAEMON_COLLECT_DRAIN_KNOB_H_
