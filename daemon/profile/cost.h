// What profiling costs, by who pays and what for.
#ifndef PROFD_DAEMON_PROFILE_COST_H_
#define PROFD_DAEMON_PROFILE_COST_H_

#include <cstdint>
#include <vector>

namespace profd {

// The part of one target.
struct TargetCost {
  uint32_t target = 0;  // index of its selector, plus one
  int64_t in_path_ns = 0;
  int64_t tick_cpu_ns = 0;
  int64_t drain_cpu_ns = 0;
  int64_t switches = 0;
  friend bool operator==(const TargetCost&, const TargetCost&) = default;
};

struct CollectorCost {
  int64_t daemon_cpu_ns = 0;  // all of the process, what follows included
  int64_t tick_cpu_ns = 0;
  int64_t drain_cpu_ns = 0;
  int64_t rules_cpu_ns = 0;             // compiling unwind rules
  int64_t answers_cpu_ns = 0;           // merging, naming and sending what clients asked for
  int64_t in_path_ns = 0;               // in the path of the targets; estimated from timed runs
  int64_t switches = 0;                 // of targets
  int64_t heap_in_path_ns = 0;          // part of in_path_ns
  int64_t heap_events = 0;              // that allocators paused for
  int64_t fault_in_path_ns = 0;         // part of in_path_ns
  int64_t faults = 0;                   // page faults of targets
  int64_t map_in_path_ns = 0;           // part of in_path_ns
  int64_t map_calls = 0;                // by which targets changed their address spaces
  int64_t cpu_in_path_ns = 0;           // part of in_path_ns
  int64_t cpu_samples = 0;              // of threads that ran
  int64_t disk_in_path_ns = 0;          // part of in_path_ns
  int64_t disk_requests = 0;            // of targets
  int64_t waker_in_path_ns = 0;         // part of in_path_ns
  int64_t wakes = 0;                    // of targets
  int64_t switch_stack_in_path_ns = 0;  // part of in_path_ns
  int64_t switch_stacks = 0;            // of context switches
  int64_t memory_cpu_ns = 0;            // reading what processes hold of memory
  int64_t burst_in_path_ns = 0;         // part of in_path_ns: bursts of tracing of malloc
  int64_t burst_calls = 0;              // of malloc and the like that ran into a probe
  std::vector<TargetCost> targets;
};

// Sums may come from damaged bytes: they wrap instead of being undefined.
void AddCost(const CollectorCost& cost, CollectorCost* sum);

// What was added to `before` to make `after`, but for the targets.
CollectorCost CostSince(const CollectorCost& after, const CollectorCost& before);

// What a target did, as a key to divide costs by.
struct TargetActivity {
  uint32_t target = 0;
  int64_t switches = 0;
  int64_t ticks = 0;  // samples that were taken of its threads
  int64_t threads = 0;
};

// Divides the costs among the targets: the path by switches, the tick by samples, the drain by
// threads.
std::vector<TargetCost> DivideCost(const CollectorCost& cost,
                                   const std::vector<TargetActivity>& activity);

}  // namespace profd

#endif  // PROFD_DAEMON_PROFILE_COST_H_
