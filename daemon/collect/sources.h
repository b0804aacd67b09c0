// What the governor can turn down: the per-switch layer, allocations, page faults, mapping calls,
// bursts of tracing and the tick.
#ifndef PROFD_DAEMON_COLLECT_SOURCES_H_
#define PROFD_DAEMON_COLLECT_SOURCES_H_

#include <cstdint>
#include <string>

#include "bpf/abi.h"
#include "daemon/collect/governor.h"
#include "daemon/collect/malloc_bursts.h"
#include "daemon/target/trap.h"

namespace profd {

// The per-switch layer: on, or shed. While it is shed its cost is known from the kernel's count of
// switches and from what one has cost before.
class SwitchSource final : public GovernedSource {
 public:
  // Without `sheddable` there is no other level than 0.
  explicit SwitchSource(bool sheddable) : sheddable_(sheddable) {}

  // What the kernel spends on calling the program at all, ns a switch: part of what one costs.
  void SetEntry(double ns) { entry_ns_ = ns; }
  double entry_ns() const { return entry_ns_; }
  // `switches` of targets in the last `seconds`; `cost` are the kernel side's totals since start.
  void Learn(double seconds, int64_t switches, const profd_switch_cost& cost);

  // What all runs have cost, the way into the program included, ns.
  double InPathNs(const profd_switch_cost& cost) const;

  const char* name() const override { return "switch"; }
  Payer payer() const override { return Payer::kTarget; }
  int levels() const override { return sheddable_ ? 2 : 1; }
  double CostAt(int level) const override;
  std::string GivenUpAt(int level) const override;

  double ns_per_switch() const { return ns_per_switch_; }

 private:
  const bool sheddable_;
  profd_switch_cost last_{};
  double switches_per_second_ = 0;
  double entry_ns_ = 0;
  double ns_per_switch_ = 0;  // 0: none was timed yet
};

// Allocations: first slow paths are watched no longer, then the probes stand for slices of the time
// only, then not at all. Of objects that allocators tell of none can be left out: all or nothing.
// Without being asked it leaves out the stacks of some events, at random, where there are more than
// a profile needs.
class HeapSource final : public GovernedSource {
 public:
  // The budget of its payer, a share of one CPU; kNoBudget: no stack is left out.
  explicit HeapSource(double budget) : budget_(budget) {}

  struct Work {
    double seconds = 0;
    int64_t events = 0;      // seen, in the last second
    int64_t seen_bytes = 0;  // that they stand for
    int64_t bytes = 0;       // allocated and freed, by the allocators' own count
    profd_heap_cost cost{};  // the kernel side's totals since start
    Traps traps;
    int64_t told = 0;  // objects that allocators told of, in the last second
  };
  void Learn(const Work& work);
  // Whether slow paths are watched, where some events are not seen.
  bool SlowPathsAt(int level) const { return level == 0; }
  // Whether objects are counted that allocators tell of.
  bool ToldAt(int level) const { return level + 1 < levels(); }

  // The stack of one event in so many is taken.
  uint32_t one_in() const { return one_in_; }
  // What a level means: the share of the time in which the probes stand.
  double ShareAt(int level) const;
  // What all runs have cost, the way into the program included.
  static double InPathNs(const profd_heap_cost& cost, const Traps& traps);

  const char* name() const override { return "heap"; }
  Payer payer() const override { return Payer::kTarget; }
  int levels() const override;
  int sampled_levels() const override { return levels() - 1; }
  double CostAt(int level) const override;
  std::string GivenUpAt(int level) const override;

 private:
  void ThinOut(double seconds);

  const double budget_;
  uint32_t one_in_ = 1;
  double calm_seconds_ = 0;  // in a row, in which half of that would have been cheap
  profd_heap_cost last_{};
  double events_per_second_ = 0;
  double bytes_per_event_ = 0;  // 0: none was seen yet
  double event_ns_ = 0;         // of an event without its stack
  double walk_ns_ = 0;          // of the stack
  double told_per_second_ = 0;  // while nothing is asked for: as guessed from before
  double slow_per_second_ =
      0;  // of slow paths that told nothing; as guessed, while none is watched
};

// Page faults: first fewer pages are sampled, then none are.
class FaultSource final : public GovernedSource {
 public:
  struct Work {
    double seconds = 0;
    int64_t faults = 0;       // of targets, in the last second, by the kernel's books
    profd_fault_cost cost{};  // the kernel side's totals since start
    double trap_ns = 0;       // of the way into the program and out of it
  };
  void Learn(const Work& work);

  // What a level means: one page in so many is sampled; 0: none.
  uint32_t OneInAt(int level) const;
  // What all runs have cost, the way into the program included.
  static double InPathNs(const profd_fault_cost& cost, double trap_ns);

  const char* name() const override { return "faults"; }
  Payer payer() const override { return Payer::kTarget; }
  int levels() const override;
  int sampled_levels() const override { return levels() - 1; }
  double CostAt(int level) const override;
  std::string GivenUpAt(int level) const override;

 private:
  profd_fault_cost last_{};
  double faults_per_second_ = 0;
  double fault_ns_ = 0;  // of one that is not sampled
  double walk_ns_ = 0;   // of one that is
};

// Mapping calls: first some of them are left out, at random, then the probes go.
class MapSource final : public GovernedSource {
 public:
  struct Work {
    double seconds = 0;
    bool on = true;          // probes stood
    profd_heap_cost cost{};  // the kernel side's totals since start
    Traps traps;
  };
  void Learn(const Work& work);

  // What a level means: one call in so many is counted; 0: none, and no probe stands.
  uint32_t OneInAt(int level) const;

  const char* name() const override { return "mappings"; }
  Payer payer() const override { return Payer::kTarget; }
  int levels() const override;
  int sampled_levels() const override { return levels() - 1; }
  double CostAt(int level) const override;
  std::string GivenUpAt(int level) const override;

 private:
  profd_heap_cost last_{};
  double calls_per_second_ = 0;
  double walks_per_call_ = 0;  // were all counted
  double call_ns_ = 0;         // of a call that is not counted
  double walk_ns_ = 0;         // the rest, of one that is
};

// Drains: where reading the accounts of many threads takes too much, they come less often.
class DrainSource final : public GovernedSource {
 public:
  // Of its payer's budget.
  static constexpr double kPart = 0.5;

  struct Work {
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
  std::string GivenUpAt(int level) const override;

 private:
  double drain_ns_ = 0;  // of a drain on the mean, without what comes of ticks
  bool whole_ = false;   // as told last
};

// The tick: first threads that only wait are visited less often, then all of them.
class TickSource final : public GovernedSource {
 public:
  explicit TickSource(int64_t interval_ns) : base_interval_ns_(interval_ns) {}

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
  int sampled_levels() const override { return levels(); }
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

// Bursts of tracing of glibc's malloc: first they are shorter, then rarer, then there are none.
class BurstSource final : public GovernedSource {
 public:
  explicit BurstSource(BurstPlan whole) : whole_(whole) {}

  // A burst that is over; `cost` are the kernel side's totals since start.
  void Learn(const BurstResult& burst, const profd_malloc_cost& cost, const Traps& traps);
  // While there are no bursts nothing is learned: what they cost is forgotten bit by bit, so that
  // they are tried again.
  void PassWithout(double seconds);

  // What a level means.
  BurstPlan PlanAt(int level) const;
  // What all runs have cost, the way into the program included.
  static double InPathNs(const profd_malloc_cost& cost, const Traps& traps);

  const char* name() const override { return "bursts"; }
  Payer payer() const override { return Payer::kTarget; }
  int levels() const override;
  int sampled_levels() const override { return levels() - 1; }
  double CostAt(int level) const override;
  std::string GivenUpAt(int level) const override;

 private:
  const BurstPlan whole_;
  double last_in_path_ns_ = 0;
  double load_ = 0;       // cost in the time in which probes stand, by that time
  double margin_ns_ = 0;  // for which they stand before and after a burst
};

}  // namespace profd

#endif  // PROFD_DAEMON_COLLECT_SOURCES_H_
