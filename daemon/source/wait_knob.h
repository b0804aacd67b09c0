// What the governor can turn of the tick.
#ifndef PROFD_DAEMON_SOURCE_WAIT_KNOB_H_
#define PROFD_DAEMON_SOURCE_WAIT_KNOB_H_

#include <cstdint>
#include <string>

#include "daemon/govern/knob.h"

namespace profd {

// The tick: first threads that only wait are visited less often, then all of them.
class WaitKnob final : public Knob {
 public:
  explicit WaitKnob(int64_t interval_ns) : base_interval_ns_(interval_ns) {}

  struct Work {
    double seconds = 0;
    int64_t tick_cpu_ns = 0;
    int64_t drain_cpu_ns = 0;  // what drains took for what ticks had put together
    int64_t ticks = 0;
    int64_t walks = 0;
    int64_t repeats = 0;     // threads found in the wait they were in before
    int64_t idle_ticks = 0;  // how many there would have been with stride 1
  };
  void Learn(const Work& work);
  // Whether threads can be left out of a tick.
  void SetByList(bool by_list) { by_list_ = by_list; }

  // What a level means.
  int64_t IntervalAt(int level) const;
  uint32_t StrideAt(int level) const;

  const char* name() const override { return "tick"; }
  Payer payer() const override { return Payer::kDaemon; }
  int levels() const override;
  // Longer intervals are asked for after everything else.
  int sampled_levels() const override;
  double CostAt(int level) const override;
  std::string GivenUpAt(int level) const override;

 private:
  const int64_t base_interval_ns_;
  bool by_list_ = false;
  double unit_ns_ = 0;  // CPU time of one unit of work, as measured in the last second
  double walks_per_tick_ = 0;
  double idle_threads_ = 0;
  double drain_share_ = 0;  // of drains: what comes of the ticks, at the interval they had
  int64_t measured_interval_ns_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_WAIT_KNOB_H_
