// The sampler: visits threads at random instants, on a thread of its own.
//
//      drainer ── orders, known threads ─►┐         ┌─ a tick: born threads, visits ──┐
//                                         ├ mailbox ┤  (no lock while the kernel works)│
//      drainer ◄─ samples, counts ────────┘         └─ what it found ─────────────────┘
//
// The mailbox is locked for as long as it takes to swap a vector, to choose whom to visit or to add
// up samples, never while the kernel is asked for something. A tick is told from before its first
// visit to its last whether it still counts: samples enter the mailbox all at once, after the
// kernel has returned. So a drain takes a tick as a whole or not at all; it need not wait for one
// that is in flight, whose samples come with the next drain, and nothing is lost or counted twice.
// A quiet thread is counted as it is woken, and by each drain. After a Pause a tick in flight
// counts no more. (More than PROFD_MAX_VISITS threads due in one tick are visited in several turns,
// each of which counts by itself.)
#ifndef PROFD_DAEMON_SOURCE_SAMPLER_H_
#define PROFD_DAEMON_SOURCE_SAMPLER_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "daemon/base/clock.h"
#include "daemon/base/wakeup.h"
#include "daemon/kernel/kernel.h"
#include "daemon/source/sample_log.h"
#include "daemon/source/tick_schedule.h"
#include "daemon/source/visits.h"
#include "daemon/source/wait_trace.h"

namespace profd {

// Without a thread or a clock of its own: whoever drives it calls Tick when it is time to.
class Sampler {
 public:
  // `counters`: of samples by thread and wait that are kept until they are taken.
  struct Options {
    int64_t interval_ns = 0;
    uint64_t counters = 0;
    uint64_t seed = 0;
  };
  // `kernel` and `clock` must outlive this.
  Sampler(TickKernel* kernel, const Clock* clock, const Options& options);

  // For the sampler's thread. When Tick is to be called next, monotonic; INT64_MAX: not before
  // somebody woke the thread.
  int64_t next_ns() const { return next_ns_; }
  // Sleeps until then.
  void Sleep() { wakeup_.SleepUntil(next_ns_); }
  // Does what is due. Returns true when the ring should be read soon.
  bool Tick();
  // The CPU time of the last tick, and of waking up for it.
  int64_t tick_cpu_ns() const { return tick_cpu_ns_; }
  // In force.
  int64_t interval_ns() const { return schedule_.interval_ns(); }

  // For other threads. Ends the present Sleep, or the next one.
  void Wake() { wakeup_.Wake(); }
  // Ticks from `now_ns` on, at which a stratum begins.
  void Begin(int64_t now_ns);
  // Ticks no more. A tick in flight is none.
  void Pause();
  // A longer one holds from the next stratum on; for a shorter one the present stratum ends now.
  void SetInterval(int64_t interval_ns);
  // No block of ticks is longer (docs/sampling.md, "Threads that only wait").
  void SetLongestStride(uint32_t ticks);
  // Threads with their numbers in the initial PID namespace: a number may have changed. Empties
  // `known`.
  struct Known {
    ThreadId id;
    int32_t kernel_tid;
  };
  void Learn(std::vector<Known>& known);

  // Cumulative.
  struct Counts {
    int64_t ticks = 0;
    int64_t missed = 0;       // also those that a tick in flight has missed by now
    int64_t idle_ticks = 0;   // at which a visit found a thread in the wait of the tick before
    int64_t lost = 0;         // samples for which there was no room
    int64_t lost_ns = 0;      // and their weight
    int64_t failed = 0;       // ticks that the kernel did not do: none of `ticks`
    int64_t cpu_ns = 0;       // of the sampler's thread, as of the last tick
    int64_t interval_ns = 0;  // in force
    int64_t weight_ns = 0;    // of `ticks`: the intervals that they stand for
  };
  // Gives the samples since the last call; several may be of one key. Also tells long waits of
  // quiet threads.
  Counts Take(std::vector<CounterEntry>& samples);
  Counts counts() const;
  // From which duration on waits are told.
  void SetLongWaits(const LongWaitLeast& least);
  // Appends the long waits since the last call, and returns how many were lost.
  uint64_t TakeLongWaits(std::vector<LongWait>& waits);
  // Threads that are not visited until they are woken.
  size_t quiet() const;
  // The samples that wait to be taken fill a large part of their room.
  bool IsFilling() const;

 private:
  struct Orders {
    uint64_t turn = 0;  // of Begin and Pause; a tick counts only in the turn in which it began
    bool on = false;
    int64_t begin_ns = 0;
    int64_t interval_ns = 0;
    int64_t cut_ns = INT64_MIN;  // when the interval was made shorter
    uint32_t stride = 1;
  };

  // False when there is nothing to do now.
  bool TakeOrders();
  absl::Status VisitListed(int64_t weight_ns);
  absl::Status VisitAll(int64_t weight_ns);
  // Whether the present stratum is still to end before its time, and when: as ordered, but what a
  // tick in flight has passed is over.
  bool IsCut() const { return taken_.cut_ns > cut_ns_; }
  int64_t CutAt() const { return std::max(taken_.cut_ns, advanced_ns_); }
  // To the next stratum: after a tick, or to end the present one early.
  void Advance();
  // The schedule went on: adds what it has missed, but for what Take has told of it already.
  void CountMissed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Strata that have passed while the tick that is due, or in flight, is not done.
  int64_t Overdue() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of a tick that ended this way. False: it is none, its samples count for nothing.
  bool CountTick(const absl::Status& status, int64_t weight_ns)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of a tick by list. Returns how many threads are to be visited first. `watches`: set if there
  // are any threads.
  size_t BeginTick(std::span<profd_visit> table, int64_t weight_ns, bool& watches);
  // A thread that ticks found in its wait without a visit.
  void CountRest(const profd_visit& visit, const TickSum& ticks, Visits::Kept& kept)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Count(const profd_visit& visit, const profd_sample_value& value, SamplePlace& place)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  TickKernel* const kernel_;
  const Clock* const clock_;
  Wakeup wakeup_;

  // The sampler's thread alone, but taken_, which others may read: it is written under the lock.
  Orders taken_;
  TickSchedule schedule_;
  std::vector<Known> known_;
  std::vector<profd_visit> found_;  // by the tick that visits everybody
  WaitTraces traces_;               // the same
  int64_t next_ns_ = INT64_MAX;
  int64_t cut_ns_ = INT64_MIN;       // the last one that was done
  int64_t advanced_ns_ = INT64_MIN;  // up to when the schedule knows what was done
  int64_t schedule_missed_ = 0;      // at the last CountMissed
  int64_t cpu_ns_ = 0;               // up to the last tick
  int64_t tick_cpu_ns_ = 0;

  // The mailbox.
  mutable absl::Mutex mutex_;
  Orders orders_ ABSL_GUARDED_BY(mutex_);
  std::vector<Known> to_learn_ ABSL_GUARDED_BY(mutex_);
  Visits visits_ ABSL_GUARDED_BY(mutex_);
  // Of the last tick that counts: when the kernel was asked, and when it had answered.
  int64_t asked_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t answered_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  SampleLog log_ ABSL_GUARDED_BY(mutex_);
  WaitLog waits_ ABSL_GUARDED_BY(mutex_);
  Counts counts_ ABSL_GUARDED_BY(mutex_);
  int64_t end_ns_ ABSL_GUARDED_BY(mutex_) = INT64_MAX;  // of the stratum of the next tick
  int64_t overdue_told_ ABSL_GUARDED_BY(mutex_) = 0;    // of that tick: strata that were told of
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_SAMPLER_H_
