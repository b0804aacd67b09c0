// Shows the governor what sources cost, and has them do what it says.
#ifndef PROFD_DAEMON_COLLECT_STEERING_H_
#define PROFD_DAEMON_COLLECT_STEERING_H_

#include <cstdint>

#include "daemon/base/clock.h"
#include "daemon/base/cpu_use.h"
#include "daemon/collect/drain_knob.h"
#include "daemon/govern/governor.h"
#include "daemon/source/source_list.h"

namespace profd {

// Not thread-safe.
class Steering {
 public:
  // `clock`, `cpu_use` and `sources` must outlive this.
  Steering(Budget budget, const Clock* clock, const CpuUse* cpu_use, const SourceList* sources);

  // Takes up the knobs of all sources. Of those that run in the targets' path the ones which can
  // only be switched off are asked last; the tick comes after them.
  void AddKnobs();
  // Judges by what comes from `now_ns` on, the end of a drain; drains have taken `drain_cpu_ns`
  // since start.
  void Begin(int64_t now_ns, int64_t drain_cpu_ns);
  // What a drain took out, but for the CPU time.
  void AddDrain(const DrainKnob::Work& work);
  // The path has cost so much since Govern that it cannot wait for its second.
  bool IsOverrun();
  bool IsDue(int64_t now_ns) const;
  // At the end of a drain.
  absl::Status Govern(int64_t now_ns, int64_t drain_cpu_ns);
  // Brings all sources to what the governor wants of them. Returns the first error.
  absl::Status Apply();

  int64_t drain_interval_ns() const { return drain_knob_.IntervalAt(drain_knob_.level()); }
  bool drains_are_rare() const { return drain_knob_.level() > 0; }
  GovernorState State() const;

 private:
  int64_t InPathNs() const;
  // What was spent since start, at `now_ns`.
  Purse::Sums Spent(int64_t now_ns, int64_t drain_cpu_ns) const;

  const Clock* const clock_;
  const CpuUse* const cpu_use_;
  const SourceList* const sources_;
  DrainKnob drain_knob_;
  Purse purse_;
  Governor governor_;
  DrainKnob::Work drained_;  // since it judged last
  int64_t judged_ns_ = 0;
  int64_t judged_in_path_ns_ = 0;
  int64_t judged_drain_cpu_ns_ = 0;
  int64_t next_overrun_look_ns_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_COLLECT_STEERING_H_
