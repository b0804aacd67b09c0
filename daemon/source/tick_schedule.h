// When to tick: one uniformly random instant in every stratum of length T (docs/sampling.md).
#ifndef PROFD_DAEMON_SOURCE_TICK_SCHEDULE_H_
#define PROFD_DAEMON_SOURCE_TICK_SCHEDULE_H_

#include <cstdint>
#include <random>

namespace profd {

class TickSchedule {
 public:
  // Strata of `interval_ns` (> 0), the first one at `origin_ns` (monotonic).
  TickSchedule(int64_t interval_ns, int64_t origin_ns, uint64_t seed);

  // The instant of the next tick.
  int64_t next_ns() const { return next_ns_; }
  // Where the stratum of that instant ends.
  int64_t end_ns() const { return stratum_ns_ + interval_ns_; }
  // The tick was done at `now_ns`. When the next instant has passed meanwhile, but only just, the
  // next tick is due now. Other strata whose instant has passed are missed: a tick made up for much
  // later would not be at a random instant.
  void Advance(int64_t now_ns);
  // Ends the present stratum at `at_ns`, before the next instant, and begins the next one there: a
  // new interval need not wait for the end of an old, long one. `at_ns` must not depend on when
  // ticks were. After a tick that was due before `at_ns`, this takes the place of Advance: strata
  // that passed between the two are missed.
  void Cut(int64_t at_ns, int64_t now_ns);
  // Continues after a pause, in which no tick counts as missed: a stratum begins at `now_ns`.
  void Resume(int64_t now_ns);
  // Sets the length of the following strata, > 0.
  void SetInterval(int64_t interval_ns) { next_interval_ns_ = interval_ns; }
  int64_t missed() const { return missed_; }
  // The length of the stratum of next_ns(): the weight of the tick.
  int64_t interval_ns() const { return interval_ns_; }

 private:
  void Choose();
  // At stratum_ns_, with the interval that was set.
  void BeginStratum(int64_t now_ns);

  int64_t interval_ns_;
  int64_t next_interval_ns_;
  int64_t stratum_ns_;  // start of the stratum of next_ns_
  int64_t next_ns_ = 0;
  int64_t missed_ = 0;
  std::mt19937_64 random_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_TICK_SCHEDULE_H_
