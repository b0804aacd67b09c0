// What sources and the collector let others see. Passive data.
#ifndef PROFD_DAEMON_SOURCE_STATE_H_
#define PROFD_DAEMON_SOURCE_STATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/govern/budget.h"
#include "daemon/probes/allocator_state.h"
#include "daemon/profile/profile.h"
#include "daemon/source/heap_accounts.h"
#include "daemon/symbolize/module_source.h"

namespace profd {

// What status says of a source: whether it is on, else why not, and how to change that.
struct LayerState {
  std::string name;  // "books", "switch", "tick", "heap" ...: the word that users type and read
  bool on = false;
  std::string note;  // why it is off, or empty
};

struct TargetState {
  std::string selector;
  std::vector<int32_t> pids;
  uint32_t threads = 0;
  TargetCost cost;  // since start
};

// An allocator of the targets, what went through it since it is watched, and what is live of that.
struct AllocatorUse {
  AllocatorState state;
  AllocatorTotals totals;
  // Estimates, of objects that came to life since then.
  int64_t live_since_wall_ns = 0;  // 0: the live heap is not counted
  int64_t live_bytes = 0;
  int64_t live_objects = 0;
};

// Where the governor turned a knob to. Costs are shares of one CPU.
struct KnobState {
  std::string name;
  bool in_path = false;   // it costs the targets, not the daemon
  uint32_t level = 0;     // 0: it gives everything
  std::string given_up;   // for a person; empty at level 0
  double cost = 0;        // in the last second
  double whole_cost = 0;  // what it would have been at level 0
};

struct GovernorState {
  Budget budget = {};
  Allowance allowance = {};
  uint64_t changes = 0;  // of a level, since start
  std::vector<KnobState> sources;
};

struct ProgramState {
  std::string name;
  uint64_t recursion_misses = 0;
};

struct CollectorState {
  int64_t started_wall_ns = 0;
  int64_t tick_interval_ns = 0;
  bool paused = false;
  std::vector<LayerState> layers;
  std::vector<TargetState> targets;
  std::vector<std::string> missing;
  LossCounts losses{};  // since start
  CollectorCost cost;   // since start
  GovernorState governor;
  double switch_entry_ns = 0;  // of each switch that the layer sees, part of the path
  uint64_t kernel_map_bytes = 0;
  uint32_t threads = 0;
  std::vector<ModuleState> modules;
  std::vector<ProgramState> programs;
  std::vector<AllocatorUse> allocators;
  bool seeks_all_allocators = false;  // no layer is disabled that would look for some
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_STATE_H_
