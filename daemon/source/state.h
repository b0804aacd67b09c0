// State of sources and the collector, for status. Passive data.
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

// Status of a source: whether it is on; if not, why, and how to change that.
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

// An allocator of the targets, the bytes through it since it is watched, and its live heap.
struct AllocatorUse {
  AllocatorState state;
  AllocatorTotals totals;
  // Estimates from objects allocated since then.
  int64_t live_since_wall_ns = 0;  // 0: the live heap is not counted
  int64_t live_bytes = 0;
  int64_t live_objects = 0;
};

// The setting of a knob. Costs are shares of one CPU.
struct KnobState {
  std::string name;
  bool in_path = false;   // it costs the targets, not the daemon
  uint32_t level = 0;     // 0: full detail
  std::string given_up;   // for users; empty at level 0
  double cost = 0;        // in the last second
  double whole_cost = 0;  // what it would have been at level 0
};

struct GovernorState {
  Budget budget = {};
  Allowance allowance = {};
  uint64_t changes = 0;  // of levels, since start
  std::vector<KnobState> sources;
};

struct ProgramState {
  std::string name;
  uint64_t recursion_misses = 0;
};

struct CollectorState {
  int64_t started_wall_ns = 0;
  int64_t started_ns = 0;  // monotonic: the wall clock may be set
  int64_t tick_interval_ns = 0;
  bool paused = false;
  std::vector<LayerState> layers;
  std::vector<TargetState> targets;
  std::vector<std::string> missing;
  LossCounts losses{};  // since start
  CollectorCost cost;   // since start
  GovernorState governor;
  double switch_entry_ns = 0;  // per context switch, part of the cost in the path
  uint64_t kernel_map_bytes = 0;
  uint32_t threads = 0;
  uint64_t heap_threads = 0;  // that had an event of an allocator
  std::vector<ModuleState> modules;
  ModuleUse module_use;
  std::vector<ProgramState> programs;
  std::vector<AllocatorUse> allocators;
  bool seeks_all_allocators = false;  // no layer that finds allocators is disabled
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_STATE_H_
