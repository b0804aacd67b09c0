// What the collector lets others see and ask for.
#ifndef PROFD_DAEMON_COLLECT_CONTROL_H_
#define PROFD_DAEMON_COLLECT_CONTROL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/base/status.h"
#include "daemon/profile/profile.h"
#include "daemon/symbolize/module_source.h"

namespace profd {

struct LayerState {
  std::string name;  // "books", "switch", "tick"
  bool on = false;
  std::string note;  // why it is off, or empty
};

struct TargetState {
  std::string selector;
  std::vector<int32_t> pids;
  uint32_t threads = 0;
};

struct ProgramState {
  std::string name;
  uint64_t recursion_misses = 0;
};

struct CollectorState {
  int64_t started_wall_ns = 0;
  int64_t tick_interval_ns = 0;
  std::vector<LayerState> layers;
  std::vector<TargetState> targets;
  std::vector<std::string> missing;
  LossCounts losses{};  // since start
  CollectorCost cost;   // since start
  uint64_t kernel_map_bytes = 0;
  uint32_t threads = 0;
  std::vector<ModuleState> modules;
  std::vector<ProgramState> programs;
};

// Thread-safe.
class CollectorControl {
 public:
  virtual ~CollectorControl() = default;
  // Drains the kernel and appends to the store; returns when the store reaches up to the call.
  // Errors: Unavailable when the collector is stopping.
  virtual absl::Status DrainNow() = 0;
  virtual CollectorState State() const = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_COLLECT_CONTROL_H_
